//! From a request's head to its answer.

use http_body_util::Full;
use hyper::body::{Body, Bytes};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};

use crate::texts::Texts;

/// The answer. The HTTP library leaves out its body for HEAD.
pub(crate) fn answer<B: Body>(request: &Request<B>, texts: &Texts) -> Response<Full<Bytes>> {
    let path = texts.site.path;
    if !request.body().is_end_stream() {
        return refusal(StatusCode::PAYLOAD_TOO_LARGE, "a request has no body here\n".to_string());
    }
    if request.uri().path() != path {
        return refusal(StatusCode::NOT_FOUND, format!("GET {path} is all there is\n"));
    }
    if *request.method() != Method::GET && *request.method() != Method::HEAD {
        let mut answer =
            refusal(StatusCode::METHOD_NOT_ALLOWED, format!("GET {path} is all there is\n"));
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return answer;
    }
    match texts.newest() {
        None => refusal(StatusCode::INTERNAL_SERVER_ERROR, "cannot be made\n".to_string()),
        Some(text) => {
            let mut answer = Response::new(Full::new(text));
            let kind = HeaderValue::from_static(texts.site.content_type);
            answer.headers_mut().insert(CONTENT_TYPE, kind);
            answer
        }
    }
}

fn refusal(status: StatusCode, words: String) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(Bytes::from(words)));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    answer
}
