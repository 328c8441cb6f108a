"""Landing: the handed-in work becomes the next tip of the target, in the object store; and undoing."""
