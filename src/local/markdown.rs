//! A message's Markdown as HTML that is safe by construction: every tag comes from a fixed list in this file, every
//! text and attribute is escaped, raw HTML becomes text, and a link leads to `http`, `https` or `mailto` only.
//!
//! The parser is `pulldown-cmark`. What is written here needs no sanitiser behind it, because nothing of the message
//! is ever copied as markup. It must not know who wrote the message.

use pulldown_cmark::{Alignment, CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag};

/// Deepest nesting that is shown; what lies deeper appears without its own marks, so that no message can build
/// a page that is slow to lay out.
const MAX_DEPTH: usize = 40;
/// Longest name of a code block's language, letters; longer ones are no names.
const MAX_LANGUAGE: usize = 24;
/// Where links may lead.
const SCHEMES: [&str; 3] = ["https://", "http://", "mailto:"];
/// What a bare address in a text begins with.
const BARE: [&str; 2] = ["https://", "http://"];
/// What closes a link; tells whether one is open.
const END_OF_LINK: &str = "</a>";

/// `text` as HTML.
pub fn render(text: &str) -> String {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut writer = Writer::default();
    for event in Parser::new_ext(text, options) {
        writer.on(event);
    }
    writer.out
}

#[derive(Default)]
struct Writer {
    out: String,
    /// What closes each open tag, so that what is opened is always closed.
    open: Vec<&'static str>,
    columns: Vec<Alignment>,
    column: usize,
    in_head: bool,
    in_code: bool,
}

impl Writer {
    fn on(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(_) => self.end(),
            Event::Text(text) if self.in_code || self.in_link() => self.text(&text),
            Event::Text(text) => self.text_with_addresses(&text),
            Event::Html(text) | Event::InlineHtml(text) => self.text(&text),
            Event::Code(text) => {
                self.out.push_str("<code>");
                self.text(&text);
                self.out.push_str("</code>");
            }
            // In a chat a new line is meant as one.
            Event::SoftBreak | Event::HardBreak => self.out.push_str("<br>"),
            Event::Rule => self.out.push_str("<hr>"),
            Event::TaskListMarker(done) => self.out.push_str(if done { "\u{2611} " } else { "\u{2610} " }),
            Event::FootnoteReference(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.text(&text);
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        if self.open.len() >= MAX_DEPTH {
            return self.open.push("");
        }
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.tag("<p>", "</p>"),
            Tag::Heading { level, .. } => self.heading(level),
            Tag::BlockQuote(_) => self.tag("<blockquote>", "</blockquote>"),
            Tag::CodeBlock(kind) => self.code_block(&kind),
            Tag::List(None) => self.tag("<ul>", "</ul>"),
            Tag::List(Some(first)) => self.tag(&format!("<ol start=\"{first}\">"), "</ol>"),
            Tag::Item => self.tag("<li>", "</li>"),
            Tag::Table(columns) => {
                self.columns = columns;
                self.tag("<div class=\"table\" tabindex=\"0\"><table>", "</tbody></table></div>");
            }
            Tag::TableHead => {
                (self.in_head, self.column) = (true, 0);
                self.tag("<thead><tr>", "</tr></thead><tbody>");
            }
            Tag::TableRow => {
                (self.in_head, self.column) = (false, 0);
                self.tag("<tr>", "</tr>");
            }
            Tag::TableCell => self.cell(),
            Tag::Emphasis => self.tag("<em>", "</em>"),
            Tag::Strong => self.tag("<strong>", "</strong>"),
            Tag::Strikethrough => self.tag("<del>", "</del>"),
            // A picture of elsewhere is never loaded: it would tell its host that it was read.
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => self.link(&dest_url),
            _ => self.tag("", ""),
        }
    }

    fn end(&mut self) {
        let closing = self.open.pop().unwrap_or_default();
        self.in_code &= closing != END_OF_CODE;
        self.out.push_str(closing);
    }

    fn tag(&mut self, opening: &str, closing: &'static str) {
        self.out.push_str(opening);
        self.open.push(closing);
    }

    /// A message lies below the page's own two levels.
    fn heading(&mut self, level: HeadingLevel) {
        match level {
            HeadingLevel::H1 => self.tag("<h3>", "</h3>"),
            HeadingLevel::H2 => self.tag("<h4>", "</h4>"),
            HeadingLevel::H3 => self.tag("<h5>", "</h5>"),
            _ => self.tag("<h6>", "</h6>"),
        }
    }

    fn code_block(&mut self, kind: &CodeBlockKind<'_>) {
        self.in_code = true;
        match language(kind) {
            Some(name) => self.tag(&format!("<pre data-language=\"{name}\"><code>"), END_OF_CODE),
            None => self.tag("<pre><code>", END_OF_CODE),
        }
    }

    fn cell(&mut self) {
        let class = match self.columns.get(self.column) {
            Some(Alignment::Right) => " class=\"right\"",
            Some(Alignment::Center) => " class=\"center\"",
            _ => "",
        };
        self.column += 1;
        if self.in_head {
            self.tag(&format!("<th scope=\"col\"{class}>"), "</th>");
        } else {
            self.tag(&format!("<td{class}>"), "</td>");
        }
    }

    fn link(&mut self, target: &str) {
        let may = SCHEMES.iter().any(|scheme| begins_with(target, scheme));
        if !may || self.in_link() {
            return self.tag("<span>", "</span>");
        }
        self.out.push_str("<a target=\"_blank\" rel=\"noopener noreferrer nofollow\" href=\"");
        self.text(target);
        self.tag("\">", END_OF_LINK);
    }

    fn in_link(&self) -> bool {
        self.open.contains(&END_OF_LINK)
    }

    fn text_with_addresses(&mut self, text: &str) {
        let mut rest = text;
        while let Some(at) = BARE.iter().filter_map(|scheme| rest.find(scheme)).min() {
            let length = address_length(&rest[at..]);
            self.text(&rest[..at]);
            let (address, behind) = rest[at..].split_at(length);
            self.link(address);
            self.text(address);
            self.end();
            rest = behind;
        }
        self.text(rest);
    }

    fn text(&mut self, text: &str) {
        for letter in text.chars() {
            match letter {
                '&' => self.out.push_str("&amp;"),
                '<' => self.out.push_str("&lt;"),
                '>' => self.out.push_str("&gt;"),
                '"' => self.out.push_str("&quot;"),
                '\'' => self.out.push_str("&#39;"),
                other => self.out.push(other),
            }
        }
    }
}

/// What closes a code block; tells that its text is behind.
const END_OF_CODE: &str = "</code></pre>";

fn begins_with(text: &str, start: &str) -> bool {
    text.get(..start.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(start))
}

/// Bytes of the address that `text` begins with, without the punctuation of the sentence around it.
fn address_length(text: &str) -> usize {
    let ends = |letter: char| letter.is_whitespace() || matches!(letter, '<' | '>' | '"' | '`');
    let whole = &text[..text.find(ends).unwrap_or(text.len())];
    whole.trim_end_matches(['.', ',', ';', ':', '!', '?', '\'', ')', ']', '*', '_']).len()
}

/// The language a fence names, when it is a plain name.
fn language(kind: &CodeBlockKind<'_>) -> Option<String> {
    let CodeBlockKind::Fenced(info) = kind else { return None };
    let name = info.split_whitespace().next()?;
    let plain =
        |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '+' | '-' | '#' | '.' | '_');
    (name.len() <= MAX_LANGUAGE && name.chars().all(plain)).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: &str = "<a target=\"_blank\" rel=\"noopener noreferrer nofollow\" href=\"";

    #[test]
    fn markdown_becomes_html() {
        let rows = [
            ("", String::new()),
            ("a <b> & \"c\"", "<p>a &lt;b&gt; &amp; &quot;c&quot;</p>".to_owned()),
            ("a\nb\n\nc", "<p>a<br>b</p><p>c</p>".to_owned()),
            ("# One\n### Three", "<h3>One</h3><h5>Three</h5>".to_owned()),
            (
                "**a** *b* ~~c~~ `d<`",
                "<p><strong>a</strong> <em>b</em> <del>c</del> <code>d&lt;</code></p>".to_owned(),
            ),
            (
                "```rust\nfn a() {}\n```",
                "<pre data-language=\"rust\"><code>fn a() {}\n</code></pre>".to_owned(),
            ),
            ("```\" onload=x\nb\n```", "<pre><code>b\n</code></pre>".to_owned()),
            ("```\nopen <x>", "<pre><code>open &lt;x&gt;</code></pre>".to_owned()),
            ("3. a\n4. b", "<ol start=\"3\"><li>a</li><li>b</li></ol>".to_owned()),
            ("- [x] a", "<ul><li>\u{2611} a</li></ul>".to_owned()),
            (
                "|a|b|\n|-|-:|\n|1|2|",
                "<div class=\"table\" tabindex=\"0\"><table><thead><tr><th scope=\"col\">a</th>\
                 <th scope=\"col\" class=\"right\">b</th></tr></thead><tbody><tr><td>1</td>\
                 <td class=\"right\">2</td></tr></tbody></table></div>"
                    .to_owned(),
            ),
            ("[a](https://example.com/?b&c)", format!("<p>{LINK}https://example.com/?b&amp;c\">a</a></p>")),
            (
                "see http://example.com/a.",
                format!("<p>see {LINK}http://example.com/a\">http://example.com/a</a>.</p>"),
            ),
            ("`http://example.com`", "<p><code>http://example.com</code></p>".to_owned()),
        ];
        for (text, html) in rows {
            assert_eq!(render(text), html, "{text}");
        }
    }

    #[test]
    fn hostile_markdown_stays_text() {
        let rows = [
            ("script", "<script>alert(1)</script>"),
            ("handler", "<img src=x onerror=alert(1)>"),
            ("inline handler", "a <b onclick=alert(1)>b</b>"),
            ("script link", "[a](javascript:alert(1))"),
            ("script link with a tab", "[a](java&#9;script:alert(1))"),
            ("script link in capitals", "[a](JaVaScRiPt:alert(1))"),
            ("script link behind a space", "[a](<\u{1} javascript:alert(1)>)"),
            ("data link", "[a](data:text/html,<script>alert(1)</script>)"),
            ("autolink", "<javascript:alert(1)>"),
            ("reference", "[a]\n\n[a]: vbscript:x"),
            ("relative link", "[a](/session)"),
            ("picture of elsewhere", "![a](https://example.com/a.png)"),
            ("attribute breaks out", "[a](https://example.com/\"onmouseover=alert(1))"),
            ("title breaks out", "[a](https://example.com \"'><script>alert(1)</script>\")"),
            ("closes the page", "</div></main></body></html><svg onload=alert(1)>"),
            ("language breaks out", "```\"><script>alert(1)</script>\nx\n```"),
            ("comment", "<!-- --><script>alert(1)</script>"),
            ("entity", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ];
        for (name, text) in rows {
            let html = render(text);
            for tag in tags(&html) {
                let known = ["p", "/p", "a", "/a", "span", "/span", "br", "pre", "code", "/code", "/pre"];
                assert!(known.contains(&tag.split(' ').next().unwrap_or_default()), "{name}: {html}");
                let link = tag.starts_with("a ").then(|| tag.split("href=\"").nth(1).unwrap_or_default());
                assert!(link.is_none_or(|to| to.starts_with("https://example.com")), "{name}: {html}");
                assert_eq!(tag.matches('"').count() % 2, 0, "{name}: {html}");
            }
        }
    }

    fn tags(html: &str) -> Vec<&str> {
        html.split('<').skip(1).map(|part| part.split('>').next().unwrap_or_default()).collect()
    }

    #[test]
    fn everything_opened_is_closed() {
        let deep = format!("{}a", ">".repeat(5_000));
        let lists = (0..200).map(|depth| format!("{}- a\n", "  ".repeat(depth))).collect::<String>();
        for text in [deep.as_str(), &lists, "|a|\n|-|", "> - **a", "[**a](https://example.com)**"] {
            let html = render(text);
            let opened = tags(&html).iter().filter(|tag| !tag.starts_with('/') && **tag != "br").count();
            let closed = tags(&html).iter().filter(|tag| tag.starts_with('/')).count();
            assert_eq!(opened, closed, "{html}");
            assert!(html.matches("<blockquote>").count() <= MAX_DEPTH, "{}", html.len());
        }
    }
}
