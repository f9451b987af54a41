//! What the rule book does for its users.

mod power;
mod rounds;
mod shared;
