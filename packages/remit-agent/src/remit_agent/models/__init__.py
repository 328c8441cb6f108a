"""Models behind one port: providers over HTTP, and a scripted model in process."""
