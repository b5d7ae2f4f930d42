/// Carries a noncopyable value to the thread that will own it.
///
/// `@unchecked Sendable`: the value is put in before the thread starts and taken out once, by that thread.
package final class Handover<Value: ~Copyable>: @unchecked Sendable {
    private var value: Value?

    package init(_ value: consuming Value) {
        self.value = consume value
    }

    package func take(_ body: (consuming Value) -> Void) {
        if let value = self.value.take() { body(value) }
    }
}
