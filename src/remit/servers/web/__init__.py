"""The console: pages in which a person sees what agents do, decides what waits, and reads why code is there."""
