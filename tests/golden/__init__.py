"""What each release of keepstep has written, kept as it was written: later ones go on with it for ever."""
