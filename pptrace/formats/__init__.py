"""Bytes in, nouns out, and back. One file per format; no file is opened here."""
