"""Landing: what attempts hand in becomes the next tip of the target, in the object store; and the way back."""
