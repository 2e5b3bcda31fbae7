//! SPDX licence expressions: whether the allowed licences suffice.

/// Whether `expression` can be fulfilled with licences of `allowed` alone.
///
/// `OR` needs one side, `AND` both; a licence `WITH` an exception is allowed only as it is written. The slash of
/// old manifests means `OR`.
pub fn suffices(expression: &str, allowed: &[&str]) -> Result<bool, String> {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut reader = Reader { words: &words, allowed };
    let fine = reader.either()?;
    if reader.words.is_empty() { Ok(fine) } else { Err(format!("not understood: {expression}")) }
}

struct Reader<'a> {
    words: &'a [&'a str],
    allowed: &'a [&'a str],
}

impl Reader<'_> {
    fn either(&mut self) -> Result<bool, String> {
        let mut fine = self.both()?;
        while self.take("OR") {
            fine |= self.both()?;
        }
        Ok(fine)
    }

    fn both(&mut self) -> Result<bool, String> {
        let mut fine = self.one()?;
        while self.take("AND") {
            fine &= self.one()?;
        }
        Ok(fine)
    }

    fn one(&mut self) -> Result<bool, String> {
        if self.take("(") {
            let fine = self.either()?;
            return if self.take(")") { Ok(fine) } else { Err("an open parenthesis".to_owned()) };
        }
        let name = self.name()?;
        if !self.take("WITH") {
            return Ok(self.allowed.contains(&name.as_str()));
        }
        let whole = format!("{name} WITH {}", self.name()?);
        Ok(self.allowed.contains(&whole.as_str()))
    }

    fn name(&mut self) -> Result<String, String> {
        let (first, rest) = self.words.split_first().ok_or("the expression ends too early")?;
        if ["OR", "AND", "WITH", "(", ")"].contains(first) {
            return Err(format!("{first} where a licence belongs"));
        }
        self.words = rest;
        Ok((*first).to_owned())
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.words.first() == Some(&word);
        if found {
            self.words = &self.words[1..];
        }
        found
    }
}

#[test]
fn licence_expressions_are_understood() {
    let allowed = ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"];
    let rows = [
        ("MIT", Ok(true)),
        ("GPL-3.0-only", Ok(false)),
        ("GPL-3.0-only OR MIT", Ok(true)),
        ("GPL-3.0-only/MIT", Ok(true)),
        ("MIT AND GPL-3.0-only", Ok(false)),
        ("MIT AND ISC", Ok(true)),
        ("(MIT OR GPL-3.0-only) AND ISC", Ok(true)),
        ("Apache-2.0 WITH LLVM-exception", Ok(true)),
        ("MIT WITH LLVM-exception", Ok(false)),
        ("Apache-2.0", Ok(false)),
    ];
    for (expression, expected) in rows {
        assert_eq!(suffices(expression, &allowed), expected, "{expression}");
    }
    for broken in ["", "MIT OR", "(MIT", "MIT ISC", "AND MIT", "MIT)"] {
        assert!(suffices(broken, &allowed).is_err(), "{broken}");
    }
}
