"""Models behind one port: real providers over HTTP, and the scripted model without a socket."""
