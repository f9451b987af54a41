//! What turns run directories into a submission: accuracy logs cut to the size that
//! a submission may have, and trees in the layout of a round.

mod truncate;

pub use truncate::{
    ELLIPSIS, Hash, KEPT_BYTES, LIMIT_BYTES, TruncateError, Truncation, hash_in, truncate,
    truncate_folder,
};
