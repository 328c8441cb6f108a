"""Messages, and models behind one port: providers over HTTP, and a scripted model in process."""
