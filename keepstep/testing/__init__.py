"""What users import to test their workflows against a real database."""
