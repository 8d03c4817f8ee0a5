//! What the Job's end is read from, and what becomes of a wait whose Job goes away.
