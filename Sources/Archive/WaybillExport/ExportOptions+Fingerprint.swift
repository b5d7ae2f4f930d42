internal import WaybillEvent
internal import WaybillSystem

extension ExportOptions {
    /// A checksum of all options that affect the output; different options start a new part.
    ///
    /// Checkpoints and replays store it, so the text below changes only when the meaning changes. Names are those of
    /// the configuration file; options at their default are omitted, so that a later version with more options computes
    /// the same value.
    package var fingerprint: String {
        Hexadecimal.text(FNV1a.hash(self.canonicalText.utf8), digitCount: 16)
    }

    var canonicalText: String {
        var text = CanonicalOptions()
        text.lines = [
            self.provider.rawValue, self.zone.name, self.mapping?.fingerprint ?? "-", "\(self.mappingVersion)",
        ]
        text.lines += self.environments.environments.map(\.rawValue)
        self.provider.type.addOptions(of: self, to: &text)
        return text.lines.joined(separator: "\n")
    }
}

/// The lines of a fingerprint's text.
package struct CanonicalOptions {
    var lines: [String] = []

    package mutating func add<Value: Equatable>(_ name: String, _ value: Value, unless usual: Value) {
        if value != usual { self.lines.append("\(name)=\(value)") }
    }
}
