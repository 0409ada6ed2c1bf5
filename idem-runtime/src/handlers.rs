use std::time::Duration;

use crate::Retain;

/// The handlers of this program that are under the attribute, from all its crates, in no particular order. Each is listed once, whether
/// or not it was ever called: the pruner and [`doctor`](crate::doctor()) read here what the handlers say of their windows.
///
/// ```
/// # extern crate idem_runtime as idem;
/// for handler in idem::handlers() {
///     println!("{} of {}:{} is the consumer {}", handler.name, handler.file, handler.line, handler.consumer);
/// }
/// ```
pub fn handlers() -> impl Iterator<Item = &'static Handler> {
    inventory::iter::<Handler>.into_iter()
}

/// A handler under the attribute, as it is written.
#[derive(Debug, Clone)]
#[non_exhaustive]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each says whether an argument was given"
)]
pub struct Handler {
    /// Its consumer's name.
    pub consumer: &'static str,
    /// The function's name.
    pub name: &'static str,
    /// The expression of its key.
    pub key: &'static str,
    /// How long its claims are kept, if it says so: `retain`.
    pub retain: Option<Retain>,
    /// How long the broker may redeliver, if it says so: `redelivery`.
    pub redelivery: Option<Duration>,
    /// How long its business keys are kept, if it says so: `business_retain`.
    pub business_retain: Option<Retain>,
    /// Whether it has a business key.
    pub has_business_key: bool,
    /// Whether its claims are versions of aggregates, which are never pruned.
    pub has_version: bool,
    /// Whether it takes batches: `each`.
    pub is_batch: bool,
    /// The expression of the message's time, if it has one: `time`.
    pub time: Option<&'static str>,
    /// The module it is in.
    pub module: &'static str,
    /// The file it is in, as the compiler names it.
    pub file: &'static str,
    /// The line of its attribute.
    pub line: u32,
}

inventory::collect!(Handler);

/// For the expansion, which writes what it read.
#[doc(hidden)]
impl Handler {
    #[must_use]
    pub const fn new(consumer: &'static str, name: &'static str, key: &'static str) -> Self {
        Self {
            consumer,
            name,
            key,
            retain: None,
            redelivery: None,
            business_retain: None,
            has_business_key: false,
            has_version: false,
            is_batch: false,
            time: None,
            module: "",
            file: "",
            line: 0,
        }
    }

    #[must_use]
    pub const fn retain(mut self, retain: Retain) -> Self {
        self.retain = Some(retain);
        self
    }

    #[must_use]
    pub const fn redelivery_ms(mut self, milliseconds: u64) -> Self {
        self.redelivery = Some(Duration::from_millis(milliseconds));
        self
    }

    #[must_use]
    pub const fn business_retain(mut self, retain: Retain) -> Self {
        self.business_retain = Some(retain);
        self
    }

    #[must_use]
    pub const fn business_key(mut self) -> Self {
        self.has_business_key = true;
        self
    }

    #[must_use]
    pub const fn version(mut self) -> Self {
        self.has_version = true;
        self
    }

    #[must_use]
    pub const fn each(mut self) -> Self {
        self.is_batch = true;
        self
    }

    #[must_use]
    pub const fn time(mut self, time: &'static str) -> Self {
        self.time = Some(time);
        self
    }

    #[must_use]
    pub const fn at(mut self, module: &'static str, file: &'static str, line: u32) -> Self {
        self.module = module;
        self.file = file;
        self.line = line;
        self
    }
}

/// Lists a handler. A macro, since the place is that of the user's attribute.
#[doc(hidden)]
#[macro_export]
macro_rules! __register {
    ($handler:expr) => {
        $crate::private::submit! {
            $handler.at(
                $crate::private::module_path!(),
                $crate::private::file!(),
                $crate::private::line!(),
            )
        }
    };
}
