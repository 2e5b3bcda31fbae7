//! A message's text as HTML: escaped, in paragraphs, nothing interpreted.

/// `text` escaped, one `<p>` per block between empty lines; fenced blocks keep their lines in `<pre>`.
pub fn escape_blocks(text: &str) -> String {
    let mut html = String::new();
    let mut block: Vec<&str> = Vec::new();
    let mut fenced = false;
    for line in text.lines() {
        let fence = line.trim_start().starts_with("```");
        if fence || (!fenced && line.trim().is_empty()) {
            close(&mut html, &mut block, fenced);
            fenced ^= fence;
        } else {
            block.push(line);
        }
    }
    close(&mut html, &mut block, fenced);
    html
}

fn close(html: &mut String, block: &mut Vec<&str>, fenced: bool) {
    if block.is_empty() {
        return;
    }
    let (open, join, end) = if fenced { ("<pre>", "\n", "</pre>") } else { ("<p>", "<br>", "</p>") };
    let lines: Vec<String> = block.drain(..).map(escape).collect();
    html.push_str(&format!("{open}{}{end}", lines.join(join)));
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_becomes_escaped_blocks() {
        let rows = [
            ("", ""),
            ("a <b> & \"c\"", "<p>a &lt;b&gt; &amp; &quot;c&quot;</p>"),
            ("a\nb\n\nc", "<p>a<br>b</p><p>c</p>"),
            ("x\n```rust\nfn a() {}\n\nlet b;\n```\ny", "<p>x</p><pre>fn a() {}\n\nlet b;</pre><p>y</p>"),
            ("```\nopen <x>", "<pre>open &lt;x&gt;</pre>"),
        ];
        for (text, html) in rows {
            assert_eq!(escape_blocks(text), html, "{text}");
        }
    }
}
