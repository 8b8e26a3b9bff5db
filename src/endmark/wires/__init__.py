"""Pure readers of provider formats: bytes in any chunking become one `Answer`, or `Refused`."""
