//! Answers that the chassis gives by itself: a status and a reason as JSON.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;

/// `{"error": reason}` with the status. The reason says what was wrong and names the way out.
pub fn refusal(status: StatusCode, reason: &str) -> Response<Full<Bytes>> {
    let mut body = String::with_capacity(reason.len() + 14);
    body.push_str("{\"error\":\"");
    escape_into(&mut body, reason);
    body.push_str("\"}\n");
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Escapes by hand, because this crate is part of the node agent, which carries no JSON library.
fn escape_into(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if c.is_control() => {
                const HEX: [char; 16] =
                    ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
                let code = c as usize;
                out.push_str("\\u00");
                out.push(HEX[(code >> 4) & 0xf]);
                out.push(HEX[code & 0xf]);
            }
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(text: &str) -> String {
        let mut out = String::new();
        escape_into(&mut out, text);
        out
    }

    #[test]
    fn quotes_backslashes_and_control_characters_are_escaped() {
        assert_eq!(escaped("a \"b\" \\ c\nd\u{1}\u{9f} é"), "a \\\"b\\\" \\\\ c\\nd\\u0001\\u009f é");
    }
}
