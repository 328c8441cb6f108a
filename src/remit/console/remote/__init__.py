"""The console at an address of its own: for people on other machines, who log in with OpenID Connect."""
