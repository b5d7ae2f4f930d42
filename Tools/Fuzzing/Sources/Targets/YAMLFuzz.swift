internal import WaybillTestSupport
internal import WaybillYAML

/// Any text as a configuration: a document whose nodes can be walked, or an error with its line.
///
/// What is JSON of plain strings means the same in YAML.
enum YAMLFuzz {
    private enum Outcome: Equatable {
        case tree(Tree)
        case none
        case refused(YAMLError)
    }

    private indirect enum Tree: Equatable {
        case scalar(String, line: Int)
        case list([Tree], line: Int)
        case map([[Tree]], line: Int)
        /// Below the depth to which anything is walked: aliases may lead in a circle.
        case deeper
    }

    private static let depthMax = 24
    /// An alias may be the same large node many times: configurations are walked by names, and not everywhere.
    private static let nodeCountMax = 20_000

    @Sendable static func run(_ input: [UInt8]) throws {
        let text = String(decoding: input, as: UTF8.self)
        let lineCount = 1 + text.unicodeScalars.count { ["\n", "\r", "\u{85}", "\u{2028}", "\u{2029}"].contains($0) }
        let outcome = Self.outcome(text, lineCount)
        switch outcome {
        case .tree, .none: break
        case .refused(let error):
            try require(1...(lineCount + 1) ~= error.line, "line \(error.line) of \(lineCount): \(shown(input))")
            try require(!error.description.isEmpty, "an error without words: \(shown(input))")
        }
        try require(Self.outcome(text, lineCount) == outcome, "read again as something else: \(shown(input))")
        if input.count <= 1000, Self.isPlainJSON(input), let value = ReferenceJSON(input, depthMax: 20),
            Self.hasPlainKeys(value)
        {
            guard case .tree(let tree) = outcome else { throw Violation("JSON is \(outcome): \(shown(input))") }
            try require(Self.isSame(tree, value), "JSON is read as \(tree): \(shown(input))")
        }
    }

    private static func outcome(_ text: String, _ lineCount: Int) -> Outcome {
        do throws(YAMLError) {
            guard let root = try YAMLNode.document(text) else { return .none }
            var nodeCount = 0
            return .tree(Self.tree(root, 0, &nodeCount))
        } catch {
            return .refused(error)
        }
    }

    private static func tree(_ node: YAMLNode, _ depth: Int, _ nodeCount: inout Int) -> Tree {
        guard depth < Self.depthMax, nodeCount < Self.nodeCountMax else { return .deeper }
        if let text = node.string {
            nodeCount += 1 + text.utf8.count
            _ = (node.int, node.bool)
            return .scalar(text, line: node.line)
        }
        if let elements = node.sequence {
            nodeCount += 1 + elements.count
            return .list(elements.map { Self.tree($0, depth + 1, &nodeCount) }, line: node.line)
        }
        let pairs = node.mapping ?? []
        nodeCount += 1 + pairs.count
        return .map(
            pairs.map { [Self.tree($0.key, depth + 1, &nodeCount), Self.tree($0.value, depth + 1, &nodeCount)] },
            line: node.line)
    }

    /// Whether both languages have the same words for it: no escapes, no lines, no scalars but strings.
    private static func isPlainJSON(_ input: [UInt8]) -> Bool {
        var isString = false
        for byte in input {
            if byte == UInt8(ascii: "\"") { isString.toggle() }
            guard 0x20...0x7E ~= byte, byte != UInt8(ascii: "\\"), isString || "\"[]{}:, ".utf8.contains(byte) else {
                return false
            }
        }
        return true
    }

    /// YAML takes each key once.
    private static func hasPlainKeys(_ value: ReferenceJSON) -> Bool {
        switch value {
        case .object(let members):
            Set(members.map(\.key)).count == members.count
                && members.allSatisfy { Self.hasPlainKeys($0.value) }
        case .array(let elements): elements.allSatisfy(Self.hasPlainKeys)
        case .null, .bool, .number, .string: true
        }
    }

    private static func isSame(_ tree: Tree, _ value: ReferenceJSON) -> Bool {
        switch (tree, value) {
        case (.deeper, _): true
        case (.scalar(let text, _), .string(let bytes)): text.utf8.elementsEqual(bytes)
        case (.list(let elements, _), .array(let values)):
            elements.count == values.count && zip(elements, values).allSatisfy(Self.isSame)
        case (.map(let pairs, _), .object(let members)):
            pairs.count == members.count
                && zip(pairs, members).allSatisfy { pair, member in
                    Self.isSame(pair[0], .string(member.key)) && Self.isSame(pair[1], member.value)
                }
        case (.scalar, _), (.list, _), (.map, _): false
        }
    }
}
