//! From the file's JSON to compiled operations; every fault of the file is found here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jsonschema::{Draft, Validator};
use serde_json::{Map, Value, json};

use super::Operation;
use super::part::{Body, Exchange, Param, Place, Response, Security};

/// Methods that a path of the file may have.
const METHODS: [&str; 5] = ["get", "put", "post", "delete", "patch"];

/// Compiles every operation of the file.
pub fn exchanges(document: &Value) -> Result<Vec<Exchange>, String> {
    let mut compiler = Compiler { document, compiled: BTreeMap::new() };
    let mut exchanges = Vec::new();
    for (path, item) in members(document, "paths")? {
        let shared = list(item, "parameters");
        for method in METHODS {
            if let Some(operation) = item.get(method) {
                let exchange = compiler.exchange(path, method, operation, shared);
                exchanges.push(exchange.map_err(|fault| format!("{method} {path}: {fault}"))?);
            }
        }
    }
    Ok(exchanges)
}

/// Compiles one schema; its references lead into the file's components, formats are asserted.
pub fn validator(document: &Value, schema: &Value) -> Result<Validator, String> {
    let whole = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "allOf": [schema],
        "components": document["components"],
    });
    let options = jsonschema::options().with_draft(Draft::Draft202012).should_validate_formats(true);
    options.should_ignore_unknown_formats(false).build(&whole).map_err(|fault| fault.to_string())
}

struct Compiler<'a> {
    document: &'a Value,
    /// By the schema's text: each is compiled once.
    compiled: BTreeMap<String, Arc<Validator>>,
}

impl<'a> Compiler<'a> {
    fn exchange(
        &mut self,
        path: &str,
        method: &str,
        operation: &'a Value,
        shared: &'a [Value],
    ) -> Result<Exchange, String> {
        let text = |name: &str| operation.get(name).and_then(Value::as_str).map(str::to_owned);
        let request = self.body(operation.get("requestBody"))?;
        Ok(Exchange {
            operation: Operation {
                id: text("operationId").ok_or("no operationId")?,
                person_id: text("x-person-operation-id"),
                method: method.to_ascii_uppercase(),
                path: path.to_owned(),
                json_request: request.media.iter().any(|(media, _)| media == "application/json"),
            },
            params: self.params(shared.iter().chain(list(operation, "parameters")))?,
            security: self.security(operation.get("security"))?,
            request,
            responses: self.responses(operation)?,
        })
    }

    fn params(&mut self, given: impl Iterator<Item = &'a Value>) -> Result<Vec<Param>, String> {
        let mut params = Vec::new();
        for param in given {
            let param = self.resolve(param)?;
            let place = match param["in"].as_str() {
                Some("path") => Place::Path,
                Some("query") => Place::Query,
                Some("header") => Place::Header,
                other => return Err(format!("a parameter in {other:?}")),
            };
            let name = param["name"].as_str().ok_or("a parameter without a name")?;
            params.push(self.param(name, place, param)?);
        }
        Ok(params)
    }

    fn param(&mut self, name: &str, place: Place, given: &Value) -> Result<Param, String> {
        let schema = self.schema(given.get("schema").ok_or("a parameter without a schema")?)?;
        let required = given.get("required").and_then(Value::as_bool).unwrap_or(false);
        Ok(Param { name: name.to_owned(), place, required, schema })
    }

    fn responses(&mut self, operation: &'a Value) -> Result<BTreeMap<String, Response>, String> {
        let mut responses = BTreeMap::new();
        for (status, response) in members(operation, "responses")? {
            let response = self.resolve(response)?;
            let mut headers = Vec::new();
            for (name, header) in response.get("headers").and_then(Value::as_object).into_iter().flatten() {
                let header = self.resolve(header)?;
                headers.push(self.param(name, Place::Header, header)?);
            }
            let body = Body { required: true, ..self.body(Some(response))? };
            responses.insert(status.clone(), Response { headers, body });
        }
        Ok(responses)
    }

    fn body(&mut self, given: Option<&'a Value>) -> Result<Body, String> {
        let Some(given) = given else { return Ok(Body::default()) };
        let mut body = Body { required: given["required"] == true, media: Vec::new() };
        for (media, content) in given.get("content").and_then(Value::as_object).into_iter().flatten() {
            let schema = content.get("schema").map(|schema| self.schema(schema)).transpose()?;
            body.media.push((media.clone(), schema));
        }
        Ok(body)
    }

    fn security(&self, own: Option<&Value>) -> Result<Security, String> {
        let schemes = &self.document["components"]["securitySchemes"];
        let sets = own.unwrap_or(&self.document["security"]).as_array().ok_or("no list of credentials")?;
        let cookie = schemes["personSession"]["name"].as_str().ok_or("no session cookie")?.to_owned();
        let mut alternatives = Vec::new();
        for set in sets {
            let names = set.as_object().ok_or("a set of credentials that is no object")?.keys();
            let kinds: Result<BTreeSet<String>, String> = names.map(|name| kind(&schemes[name])).collect();
            alternatives.push(kinds?);
        }
        Ok(Security { alternatives, cookie })
    }

    fn schema(&mut self, schema: &Value) -> Result<Arc<Validator>, String> {
        let key = schema.to_string();
        if let Some(known) = self.compiled.get(&key) {
            return Ok(Arc::clone(known));
        }
        let fresh = Arc::new(validator(self.document, schema)?);
        self.compiled.insert(key, Arc::clone(&fresh));
        Ok(fresh)
    }

    fn resolve(&self, value: &'a Value) -> Result<&'a Value, String> {
        match value.get("$ref").and_then(Value::as_str) {
            None => Ok(value),
            Some(target) => {
                let pointer = target.strip_prefix('#').ok_or("a reference to another file")?;
                self.document.pointer(pointer).ok_or_else(|| format!("nothing at {target}"))
            }
        }
    }
}

/// How a credential shows in a request, in the words of [`Security::check`].
fn kind(scheme: &Value) -> Result<String, String> {
    let text = |name: &str| scheme[name].as_str().unwrap_or("");
    match (text("type"), text("in")) {
        ("http", _) => Ok(text("scheme").to_ascii_lowercase()),
        ("apiKey", "header") => Ok(format!("header {}", text("name"))),
        ("apiKey", "cookie") => Ok("cookie".to_owned()),
        other => Err(format!("an unknown kind of credential: {other:?}")),
    }
}

fn members<'a>(value: &'a Value, name: &str) -> Result<&'a Map<String, Value>, String> {
    value.get(name).and_then(Value::as_object).ok_or_else(|| format!("no object {name}"))
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
