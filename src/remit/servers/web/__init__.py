"""The console: pages in which a person sees the agents' work, decides pending questions, and reads the reasons of
code.
"""
