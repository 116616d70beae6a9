//! Just enough JSON to write some.

/// An object or an array, written as it is filled.
#[derive(Debug)]
pub(crate) struct Json {
    text: String,
    close: char,
}

impl Json {
    pub(crate) fn object() -> Self {
        Self { text: "{".into(), close: '}' }
    }

    /// Of what is already JSON.
    pub(crate) fn array(items: impl IntoIterator<Item = Json>) -> Self {
        let items: Vec<String> = items.into_iter().map(Json::end).collect();
        Self { text: format!("[{}", items.join(",")), close: ']' }
    }

    pub(crate) fn text(self, name: &str, value: &str) -> Self {
        let value = quoted(value);
        self.raw(name, &value)
    }

    /// Six digits are more than any measurement has; what is no number is `null`.
    pub(crate) fn number(self, name: &str, value: f64) -> Self {
        let value = if value.is_finite() { format!("{}", (value * 1e6).round() / 1e6) } else { "null".into() };
        self.raw(name, &value)
    }

    pub(crate) fn count(self, name: &str, value: u64) -> Self {
        self.raw(name, &value.to_string())
    }

    pub(crate) fn put(self, name: &str, value: Json) -> Self {
        let value = value.end();
        self.raw(name, &value)
    }

    pub(crate) fn end(mut self) -> String {
        self.text.push(self.close);
        self.text
    }

    fn raw(mut self, name: &str, value: &str) -> Self {
        let comma = if self.text.len() > 1 { "," } else { "" };
        self.text += &format!("{comma}{}:{value}", quoted(name));
        self
    }
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            // Also what would end a script element.
            '<' | '\0'..='\x1f' => quoted += &format!("\\u{:04x}", u32::from(c)),
            _ => quoted.push(c),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_hold_texts_numbers_and_arrays() {
        let inner = Json::array([Json::object().count("n", 1), Json::object()]);
        let json = Json::object().text("a", "x").number("b", 0.5).number("c", f64::NAN).put("d", inner);
        assert_eq!(json.end(), r#"{"a":"x","b":0.5,"c":null,"d":[{"n":1},{}]}"#);
    }

    #[test]
    fn nothing_gets_out_of_its_quotes() {
        assert_eq!(quoted("a\"b\\c\n</script>"), r#""a\"b\\c\u000a\u003c/script>""#);
    }
}
