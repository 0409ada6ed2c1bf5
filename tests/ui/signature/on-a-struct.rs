use idem::idempotent;

#[idempotent(key = "event.id", consumer = "billing")]
struct OrderPaid {
    id: String,
    amount: i64,
}

fn main() {}
