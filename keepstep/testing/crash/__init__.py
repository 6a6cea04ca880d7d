"""A user's workflow under real crashes, at every write point of every step."""
