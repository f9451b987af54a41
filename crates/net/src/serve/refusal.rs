//! Refusals of requests, with their status codes in HTTP and gRPC.

use dyno_loadgen::record::Failure;

use crate::grpc::Code;
use crate::trouble::Trouble;

/// Reason for a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RefusalKind {
    /// The request is invalid, or does not fit the model.
    Invalid,
    /// The token is missing or wrong.
    Unauthorized,
    /// Unknown model, version or path.
    NotFound,
    /// The path takes another method.
    Method,
    /// The client was too slow to send it.
    Slow,
    /// It is larger than the limit.
    TooLarge,
    /// The encoding or content type is not supported.
    Unsupported,
    /// The queue is full.
    Full,
    /// The model failed.
    Failed,
    /// The server is shutting down.
    Draining,
    /// The answer took too long.
    TimedOut,
}

/// A reason and its message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub why: RefusalKind,
    pub words: String,
}

impl RefusalKind {
    /// Returns the HTTP status.
    pub fn status(self) -> u16 {
        match self {
            Self::Invalid => 400,
            Self::Unauthorized => 401,
            Self::NotFound => 404,
            Self::Method => 405,
            Self::Slow => 408,
            Self::TooLarge => 413,
            Self::Unsupported => 415,
            Self::Full => 429,
            Self::Failed => 500,
            Self::Draining => 503,
            Self::TimedOut => 504,
        }
    }

    /// Returns the gRPC status.
    pub fn code(self) -> Code {
        match self {
            Self::Invalid => Code::InvalidArgument,
            Self::Unauthorized => Code::Unauthenticated,
            Self::NotFound => Code::NotFound,
            Self::Method | Self::Unsupported => Code::Unimplemented,
            Self::Slow | Self::TimedOut => Code::DeadlineExceeded,
            Self::TooLarge | Self::Full => Code::ResourceExhausted,
            Self::Failed => Code::Internal,
            Self::Draining => Code::Unavailable,
        }
    }

    /// Returns the seconds after which a retry is worthwhile.
    pub fn retry_after(self) -> Option<&'static str> {
        matches!(self, Self::Full | Self::Draining).then_some("1")
    }

    /// Returns the error type of the OpenAI interface.
    pub fn openai(self) -> &'static str {
        match self {
            Self::Full => "rate_limit_error",
            Self::Failed | Self::Draining | Self::TimedOut => "server_error",
            _ => "invalid_request_error",
        }
    }

    pub fn because(self, words: impl Into<String>) -> Refusal {
        Refusal { why: self, words: words.into() }
    }
}

/// Errors of codecs are the client's.
impl From<Trouble> for Refusal {
    fn from(trouble: Trouble) -> Self {
        RefusalKind::Invalid.because(trouble.words)
    }
}

/// Refusals of a model.
impl From<dyno_sut::infer::Refusal> for Refusal {
    fn from((failure, words): dyno_sut::infer::Refusal) -> Self {
        match failure {
            Failure::Rejected => RefusalKind::Invalid.because(words),
            Failure::TimedOut => RefusalKind::TimedOut.because(words),
            _ => RefusalKind::Failed.because(words),
        }
    }
}
