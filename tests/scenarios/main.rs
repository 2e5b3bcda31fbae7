//! Scenarios: the whole program against the embedded server.
