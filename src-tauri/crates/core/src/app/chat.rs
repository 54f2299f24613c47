//! What back ends ask for.
