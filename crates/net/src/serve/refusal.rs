//! Why a request is not answered, in the numbers of HTTP and of gRPC.

use dyno_loadgen::record::Failure;

use crate::grpc::Code;
use crate::trouble::Trouble;

/// Whose fault it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// The request is no request, or does not fit the model.
    Invalid,
    /// There is no such model, version or path.
    NotFound,
    /// The path takes another method.
    Method,
    /// The client was too slow to send it.
    Slow,
    /// It is larger than the limit.
    TooLarge,
    /// An encoding or type of content that is not read.
    Unsupported,
    /// The queue is full.
    Full,
    /// The model failed.
    Failed,
    /// The server ends.
    Draining,
    /// The answer took too long.
    TimedOut,
}

/// Why, and in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub why: Why,
    pub words: String,
}

impl Why {
    /// Status of HTTP.
    pub fn status(self) -> u16 {
        match self {
            Self::Invalid => 400,
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

    /// Status of gRPC.
    pub fn code(self) -> Code {
        match self {
            Self::Invalid => Code::InvalidArgument,
            Self::NotFound => Code::NotFound,
            Self::Method | Self::Unsupported => Code::Unimplemented,
            Self::Slow | Self::TimedOut => Code::DeadlineExceeded,
            Self::TooLarge | Self::Full => Code::ResourceExhausted,
            Self::Failed => Code::Internal,
            Self::Draining => Code::Unavailable,
        }
    }

    /// Seconds after which it is worth to ask again.
    pub fn retry_after(self) -> Option<&'static str> {
        matches!(self, Self::Full | Self::Draining).then_some("1")
    }

    /// The type of an error of the OpenAI interface.
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

/// What a codec finds is the client's.
impl From<Trouble> for Refusal {
    fn from(trouble: Trouble) -> Self {
        Why::Invalid.because(trouble.words)
    }
}

/// What a model says.
impl From<dyno_sut::infer::Refusal> for Refusal {
    fn from((failure, words): dyno_sut::infer::Refusal) -> Self {
        match failure {
            Failure::Rejected => Why::Invalid.because(words),
            Failure::TimedOut => Why::TimedOut.because(words),
            _ => Why::Failed.because(words),
        }
    }
}
