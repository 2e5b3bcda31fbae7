//! The machine-readable contract as a judge of requests and answers.
//!
//! Reads `fixtures/api/openapi.yaml` and says whether what travelled is what the file promises. Knows the file
//! and nothing of the program: what it judges comes in as method, path, status, headers and JSON values.

mod compile;
mod part;

use std::path::PathBuf;
use std::sync::LazyLock;

use serde_json::{Value, json};

use part::{Exchange, Place};

/// Where the files of the contract are.
pub fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/api")
}

/// The contract, compiled once for the whole test program.
pub fn contract() -> &'static Contract {
    static CONTRACT: LazyLock<Contract> = LazyLock::new(Contract::load);
    &CONTRACT
}

/// The compiled contract.
pub struct Contract {
    document: Value,
    exchanges: Vec<Exchange>,
}

/// One operation as the file names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Operation {
    /// `operationId`.
    pub id: String,
    /// The name of the same path and method on the person's side, where it has one of its own.
    pub person_id: Option<String>,
    /// Upper case method.
    pub method: String,
    /// Path with its variables in braces.
    pub path: String,
    /// Whether the operation takes a JSON body.
    pub json_request: bool,
}

impl Contract {
    /// Reads and compiles the file; panics with the fault when the file itself is wrong.
    pub fn load() -> Contract {
        let text = std::fs::read_to_string(directory().join("openapi.yaml")).unwrap();
        let document: Value = serde_saphyr::from_str(&text).unwrap();
        let exchanges = compile::exchanges(&document).unwrap();
        Contract { document, exchanges }
    }

    /// The whole file.
    pub fn document(&self) -> &Value {
        &self.document
    }

    /// Every operation of the file.
    pub fn operations(&self) -> Vec<Operation> {
        self.exchanges.iter().map(|exchange| exchange.operation.clone()).collect()
    }

    /// Whether a value is valid against `components/schemas/<name>`; the name may lead deeper.
    pub fn check_schema(&self, name: &str, value: &Value) -> Result<(), String> {
        self.check_any_schema(&[name.to_owned()], value)
    }

    /// Whether a value is valid against at least one of the schemas.
    pub fn check_any_schema(&self, names: &[String], value: &Value) -> Result<(), String> {
        let reference = |name: &String| json!({"$ref": format!("#/components/schemas/{name}")});
        let schema = match names {
            [name] => reference(name),
            _ => json!({"anyOf": names.iter().map(reference).collect::<Vec<_>>()}),
        };
        part::fault(&compile::validator(&self.document, &schema)?, value)
    }

    /// Whether an answer is one that the contract promises.
    ///
    /// `path` may carry a query. `body` is the JSON of the answer, absent when there is none or when it is not
    /// JSON. A method that no operation has on a known path must be answered 405; HEAD is judged as GET without a
    /// body. Returns the operation's id.
    pub fn check_answer(
        &self,
        method: &str,
        path: &str,
        status: u16,
        content_type: Option<&str>,
        body: Option<&Value>,
    ) -> Result<String, String> {
        let exchange = self.answering(method, path, status)?;
        let id = &exchange.operation.id;
        let response = exchange.response(status)?;
        response
            .body
            .check(content_type, body)
            .map_err(|fault| format!("{id} answered {status}: {fault}"))?;
        match body.and_then(|problem| problem.get("status")) {
            Some(inner) if status >= 400 && *inner != status => {
                Err(format!("{id} answered {status}, but its problem says {inner}"))
            }
            _ => Ok(id.clone()),
        }
    }

    /// Whether the headers of an answer are the ones that the contract promises for its status.
    pub fn check_answer_headers(
        &self,
        method: &str,
        path: &str,
        status: u16,
        headers: &[(String, String)],
    ) -> Result<String, String> {
        let exchange = self.answering(method, path, status)?;
        let id = &exchange.operation.id;
        for header in &exchange.response(status)?.headers {
            let value = find_header(headers, &header.name);
            header.check(value).map_err(|fault| format!("{id} answered {status}: {fault}"))?;
        }
        Ok(id.clone())
    }

    /// Whether a request is one that the contract describes: path, query, credentials, headers and body.
    ///
    /// `body` is the JSON of the request, absent when there is none or when it is not JSON.
    pub fn check_request(
        &self,
        method: &str,
        path: &str,
        headers: &[(String, String)],
        body: Option<&Value>,
    ) -> Result<String, String> {
        let exchange = self.resolve(method, path)?;
        let id = exchange.operation.id.clone();
        let tell = |fault: String| format!("{id}: {fault}");
        exchange.check_path_and_query(path).map_err(tell)?;
        for param in exchange.params.iter().filter(|param| param.place == Place::Header) {
            param.check(find_header(headers, &param.name)).map_err(tell)?;
        }
        exchange.security.check(headers).map_err(tell)?;
        exchange.request.check(find_header(headers, "content-type"), body).map_err(tell)?;
        Ok(id)
    }

    fn resolve(&self, method: &str, path: &str) -> Result<&Exchange, String> {
        let method = if method == "HEAD" { "GET" } else { method };
        let found = self.exchanges.iter().find(|it| it.operation.method == method && it.matches(path));
        found.ok_or_else(|| format!("no operation has {method} {path}"))
    }

    fn answering(&self, method: &str, path: &str, status: u16) -> Result<&Exchange, String> {
        let on_path = || self.exchanges.iter().find(|exchange| exchange.matches(path));
        match self.resolve(method, path) {
            Err(_) if status == 405 => on_path().ok_or_else(|| format!("no operation has the path {path}")),
            found => found,
        }
    }
}

/// The value of a header, whatever the case of its name.
pub fn find_header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}
