"""LISTEN: the faces that programs talk to. They hold no rule of their own."""
