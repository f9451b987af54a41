//! What the rule book does for its users.

mod rounds;
mod submission;
