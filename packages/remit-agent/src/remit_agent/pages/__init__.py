"""The console's pages of the own agent: Chat."""
