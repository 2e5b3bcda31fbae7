//! The embedded chat server: the same contract for one person on one machine.
