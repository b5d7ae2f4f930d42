package import WaybillEvent
internal import WaybillJSON

/// Which events a stream's owner may write: patterns for `env` and for `bundle`, with `*` for any characters.
///
/// Without patterns for one of the two, every value is allowed.
package struct LinePatterns: Hashable, Sendable {
    private let environments: EnvironmentSet
    private let bundles: [TextPattern]

    /// Allows every event.
    package static let all = LinePatterns(environments: [], bundles: [])

    package init(environments: [String], bundles: [String]) {
        let patterns = environments.map(TextPattern.init)
        self.environments = EnvironmentSet(
            DeploymentEnvironment.allCases.filter { environment in
                patterns.isEmpty || patterns.contains { $0.matches(environment.rawValue) }
            })
        self.bundles = bundles.map(TextPattern.init)
    }

    package func allow(_ environment: DeploymentEnvironment, _ bundle: String) -> Bool {
        var bundle = bundle
        return bundle.withUTF8 { self.allow(environment, UnsafeRawBufferPointer($0)) }
    }

    @inline(__always)
    func allow(_ environment: DeploymentEnvironment, _ bundle: UnsafeRawBufferPointer) -> Bool {
        self.environments.contains(environment) && (self.bundles.isEmpty || self.hasPattern(of: bundle))
    }

    /// Whether the owner may write an event whose `bundle` has these bytes in the line, which may contain escapes.
    @inline(__always)
    func allow(_ environment: DeploymentEnvironment, inLine bundle: UnsafeRawBufferPointer) -> Bool {
        guard !self.bundles.isEmpty, JSONText.hasEscapes(bundle) else { return self.allow(environment, bundle) }
        return self.allow(environment, JSONText.string(bundle))
    }

    private func hasPattern(of bundle: UnsafeRawBufferPointer) -> Bool {
        self.bundles.contains { $0.matches(bundle) }
    }
}

/// A text in which each `*` stands for any characters, or none.
package struct TextPattern: Hashable, Sendable {
    private let bytes: [UInt8]

    package init(_ text: String) {
        self.bytes = Array(text.utf8)
    }

    package func matches(_ text: String) -> Bool {
        var text = text
        return text.withUTF8 { self.matches(UnsafeRawBufferPointer($0)) }
    }

    package func matches(_ text: UnsafeRawBufferPointer) -> Bool {
        var (position, index) = (0, 0)
        // After the last `*`: where the pattern continues, and how far the text reaches that the `*` stands for.
        var resume: (index: Int, position: Int)?
        while position < text.count {
            if index < self.bytes.count, self.bytes[index] == UInt8(ascii: "*") {
                index += 1
                resume = (index, position)
            } else if index < self.bytes.count, self.bytes[index] == text[position] {
                index += 1
                position += 1
            } else if let last = resume {
                resume = (last.index, last.position + 1)
                (index, position) = (last.index, last.position + 1)
            } else {
                return false
            }
        }
        return self.bytes[index...].allSatisfy { $0 == UInt8(ascii: "*") }
    }
}
