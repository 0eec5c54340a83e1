"""The edge: parse, one service call, render."""
