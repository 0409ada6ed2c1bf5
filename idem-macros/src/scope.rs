use crate::batch::Batch;
use crate::errors::nearest;
use crate::handler::Handler;

/// The names that an argument's expression can use.
pub(crate) struct Scope {
    /// Of these it has to use one: the parameters, or what the pattern of `each` binds.
    pub(crate) message: Vec<String>,
    /// These it may use: beside `each`, the other parameters.
    pub(crate) others: Vec<String>,
    /// The parameter with all messages, which is not one of them.
    pub(crate) batch: Option<String>,
    pub(crate) transaction: Option<String>,
}

impl Scope {
    /// Of the handler as a whole.
    pub(crate) fn of_handler(handler: &Handler) -> Self {
        Self {
            message: handler.parameters.clone(),
            others: Vec::new(),
            batch: None,
            transaction: handler.transaction_name.clone(),
        }
    }

    /// Of one message.
    pub(crate) fn of_message(handler: &Handler, batch: Option<&Batch>) -> Self {
        let handler_scope = Self::of_handler(handler);
        let Some(batch) = batch else {
            return handler_scope;
        };
        let messages = batch.messages.ident.to_string();
        let mut others = handler_scope.message;
        others.retain(|name| *name != messages);
        Self {
            message: batch.names.clone(),
            others,
            batch: Some(messages),
            transaction: handler_scope.transaction,
        }
    }

    pub(crate) fn is_batch(&self) -> bool {
        self.batch.is_some()
    }

    /// What a name is that is none of these.
    pub(crate) fn stranger(&self) -> &'static str {
        if self.is_batch() {
            "neither a name in `each` nor a parameter of the handler"
        } else {
            "no parameter of the handler"
        }
    }

    /// An expression to show in a message: over the first name, if there is one.
    pub(crate) fn example(&self, field: &str) -> String {
        let first = self.message.iter().find(|name| *name != "self");
        format!("{}.{field}", first.map_or("event", String::as_str))
    }

    /// The names that are there, as part of a sentence.
    pub(crate) fn list(&self) -> String {
        let names: Vec<String> = self
            .message
            .iter()
            .map(|name| format!("`{name}`"))
            .collect();
        match names.as_slice() {
            [] => "a parameter for the message, which the handler lacks".to_owned(),
            names => names.join(" or "),
        }
    }

    pub(crate) fn nearest(&self, name: &str) -> Option<&str> {
        let names = self.message.iter().chain(&self.others);
        nearest(name, names.map(String::as_str))
    }
}
