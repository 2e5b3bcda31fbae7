//! Each kind of element of a context as lines, quotes and data blocks. Here is decided what is material.

use uuid::Uuid;

use super::FileText;
use super::clean::{clean_file_name, clean_name, clean_path, clean_text};
use super::document::Document;
use crate::sdk::wire::channel::ChannelKind;
use crate::sdk::wire::message::{
    MessageKind, Origin, Role, RunContext, RunContextAttachment, RunContextMessage, Transcript, Trust,
};

/// Stands for the words of a message that has only files: an empty text item is refused by the model's API.
const NO_WORDS: &str = "[the message has no text]";
/// The longest language tag: longer ones are no BCP 47 tags that anybody uses.
const LANGUAGE_MAX: usize = 35;

/// Where the conversation is, and what of it is left out.
pub fn heading(document: &mut Document, context: &RunContext) {
    document.line("Context of this conversation, made by the chat server.".to_owned());
    let (channel, kind) = (&context.channel, channel_kind(context.channel.kind));
    document.line(format!("channel \"{}\" kind={kind} id={}", clean_name(&channel.name), channel.id));
    document.line(format!("thread id={}, its title:", context.thread.id));
    document.data(clean_text(&context.thread.title));
    if let Some(seq) = context.truncated_before_seq {
        document.line(format!("truncated_before_seq={seq}: messages before this position are left out."));
    }
    if let Some(seq) = context.context_floor_seq {
        document
            .line(format!("context_floor_seq={seq}: messages up to this position came in earlier turns."));
    }
}

/// A message beside or before the triggering one: its header, its text, its files by name only.
pub fn context_message(document: &mut Document, place: &str, message: &RunContextMessage) {
    document.gap();
    document.line(header(&format!("{place} message"), message));
    let material = is_material_in_context(message.trust);
    if !message.content_md.is_empty() {
        text(document, material, &message.content_md);
    }
    for attachment in &message.attachments {
        document.line(format!("file of message seq={}:", message.seq));
        document.data(file_lines(attachment, None));
        if let Some(transcript) = &attachment.transcript {
            document.line(transcript_header(attachment.file_id, transcript, message.trust));
            text(document, material, &transcript.text);
        }
    }
}

/// The message whose words are the trigger part: its header and its files, never its words.
pub fn trigger_header(
    document: &mut Document,
    what: &str,
    message: &RunContextMessage,
    files: &[(Uuid, FileText)],
) {
    document.gap();
    document.line(header(what, message));
    document.line("Its text is in the next part.".to_owned());
    for attachment in &message.attachments {
        let file = files.iter().find(|(file_id, _)| *file_id == attachment.file_id);
        document.line("file of this message:".to_owned());
        document.data(file_lines(attachment, file.map(|(_, text)| text)));
    }
}

/// The words of the triggering message and its transcripts. Only a person who may trigger the agent speaks
/// to it; what anybody else wrote is material here too.
pub fn trigger_words(document: &mut Document, message: &RunContextMessage) {
    let material = !matches!(message.trust, Trust::Trigger | Trust::Authorized);
    let words = |document: &mut Document, words: &str| {
        if material { document.data(clean_text(words)) } else { document.words(words) }
    };
    let spoken = |file: &'_ RunContextAttachment| file.transcript.is_some();
    if !message.content_md.is_empty() {
        words(document, &message.content_md);
    } else if !message.attachments.iter().any(spoken) {
        document.line(NO_WORDS.to_owned());
    }
    for attachment in &message.attachments {
        let Some(transcript) = &attachment.transcript else { continue };
        document.line(transcript_header(attachment.file_id, transcript, message.trust));
        words(document, &transcript.text);
    }
}

fn text(document: &mut Document, material: bool, text: &str) {
    let cleaned = clean_text(text);
    if material { document.data(cleaned) } else { document.quote(&cleaned) }
}

fn is_material_in_context(trust: Trust) -> bool {
    match trust {
        Trust::Trigger | Trust::Authorized | Trust::Own => false,
        Trust::Unverified => true,
    }
}

fn header(what: &str, message: &RunContextMessage) -> String {
    format!(
        "[{what} seq={} id={} author=\"{}\" author_id={} role={} trust={} origin={} kind={} created_at={} \
         already_delivered={} truncated={}]",
        message.seq,
        message.message_id,
        clean_name(&message.author.display_name),
        message.author.principal_id,
        role(message.role),
        trust(message.trust),
        origin(message.origin),
        kind(message.kind),
        message.created_at,
        message.already_delivered,
        message.truncated,
    )
}

fn transcript_header(file_id: Uuid, transcript: &Transcript, trusted: Trust) -> String {
    let language = match transcript.language.as_deref() {
        Some(tag) if is_language_tag(tag) => format!(" language={tag}"),
        _ => String::new(),
    };
    format!("[transcript of file {file_id} trust={}{language}]", trust(trusted))
}

fn is_language_tag(tag: &str) -> bool {
    !tag.is_empty()
        && tag.len() <= LANGUAGE_MAX
        && tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// The content of a file's data block: what the sender and the server say of it, and where it is.
fn file_lines(attachment: &RunContextAttachment, file: Option<&FileText>) -> String {
    let mut lines = format!(
        "file id={}\nname: {}\ntype: {}\nsize in bytes: {}",
        attachment.file_id,
        clean_file_name(&attachment.name),
        clean_file_name(&attachment.mime_type),
        attachment.size_bytes,
    );
    match file {
        Some(FileText::Local(path)) => {
            lines.push_str("\nlocal file: ");
            lines.push_str(&clean_path(&path.to_string_lossy()));
        }
        Some(FileText::Unavailable(code)) => {
            lines.push_str("\nunavailable: ");
            lines.push_str(&clean_name(code));
        }
        None => {}
    }
    lines
}

fn channel_kind(kind: ChannelKind) -> &'static str {
    match kind {
        ChannelKind::Forum => "forum",
        ChannelKind::Text => "text",
    }
}

fn role(role: Role) -> &'static str {
    match role {
        Role::Person => "person",
        Role::Agent => "agent",
        Role::Own => "self",
        Role::Import => "import",
        Role::Other => "other",
    }
}

fn trust(trust: Trust) -> &'static str {
    match trust {
        Trust::Trigger => "trigger",
        Trust::Authorized => "authorized",
        Trust::Own => "self",
        Trust::Unverified => "unverified",
    }
}

fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::Chat => "chat",
        Origin::Import => "import",
        Origin::Webhook => "webhook",
    }
}

fn kind(kind: MessageKind) -> &'static str {
    match kind {
        MessageKind::Voice => "voice",
        MessageKind::System => "system",
        MessageKind::Text => "text",
    }
}
