internal import CYAML

/// An error in YAML text, with its line.
package struct YAMLError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The line, counted from 1.
    package let line: Int
    /// The key that occurs twice in a mapping; `nil` for any other error.
    package let duplicateKey: String?
    package let description: String
}

/// Why a scalar has no value.
package struct YAMLSubstitutionError: Error, Hashable, Sendable {
    package let description: String

    package init(_ description: String) {
        self.description = description
    }
}

/// A value in a YAML document, parsed by libyaml; it has a line number and retains its document.
///
///     text ─▶ libyaml's tree, checked for duplicate keys ─▶ nodes that look up values in it
///
/// An alias is the node of its anchor. A node may contain itself by an alias: walk only as deep as expected.
package struct YAMLNode: Sendable {
    /// Larger inputs are refused.
    private static let byteCountMax = 16 << 20

    private let document: YAMLDocument
    private let index: Int32

    private init(_ document: YAMLDocument, _ index: Int32) {
        self.document = document
        self.index = index
    }

    /// Parses the single document in `text`; `nil` if there is none.
    package static func document(_ text: String) throws(YAMLError) -> YAMLNode? {
        try Self.document(text) { $0 }
    }

    /// Reads the one document of `text`; `nil` when it holds none.
    ///
    /// - Parameter substitute: gives each scalar its value, after the structure is known; keys keep theirs.
    package static func document(
        _ text: String, substitute: (_ scalar: String) throws(YAMLSubstitutionError) -> String
    ) throws(YAMLError) -> YAMLNode? {
        guard text.utf8.count <= Self.byteCountMax else {
            throw YAMLError(line: 1, duplicateKey: nil, description: "more than \(Self.byteCountMax >> 20) MiB")
        }
        // A separate allocation: the parser keeps the pointer between calls.
        let input = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: max(text.utf8.count, 1))
        defer { input.deallocate() }
        let (_, end) = input.initialize(from: text.utf8)
        let parser = YAMLParser(input: UnsafeBufferPointer(rebasing: input[..<end]))
        guard let root = try parser.next() else { return nil }
        if let second = try parser.next() {
            throw YAMLError(line: second.line, duplicateKey: nil, description: "a second document begins")
        }
        try root.document.checkKeys()
        root.document.substitute(substitute)
        return root
    }

    /// The line of its beginning, counted from 1.
    package var line: Int {
        self.document.line(self.index)
    }

    /// The text of a scalar before a substitution that changed it; `nil` where none did.
    package var originalText: String? {
        self.document.originalText(self.index)
    }

    /// Why a scalar has no value.
    package var substitutionError: YAMLSubstitutionError? {
        self.document.errors[self.index]
    }

    /// The text of a scalar; exactly as written if it has no quotes.
    package var string: String? {
        self.document.scalar(self.index)?.text
    }

    /// Whether it is a scalar without quotes, which may be a number, a boolean or null.
    package var isPlain: Bool {
        self.document.scalar(self.index)?.isPlain ?? false
    }

    package var isScalar: Bool {
        self.document.scalar(self.index) != nil
    }

    /// The value as a decimal integer, with optional `_` between digits.
    package var int: Int? {
        guard let scalar = self.document.scalar(self.index), scalar.isPlain else { return nil }
        let digits = scalar.text.hasPrefix("_") || scalar.text.hasSuffix("_") ? "" : scalar.text.filter { $0 != "_" }
        return Int(digits)
    }

    /// The value as a boolean: `true`, `yes`, `on`, or `false`, `no`, `off`, in any case.
    package var bool: Bool? {
        guard let scalar = self.document.scalar(self.index), scalar.isPlain else { return nil }
        switch scalar.text.lowercased() {
        case "true", "yes", "on": return true
        case "false", "no", "off": return false
        default: return nil
        }
    }

    /// The elements of a sequence, in order.
    package var sequence: [YAMLNode]? {
        self.document.elements(self.index)?.map { YAMLNode(self.document, $0) }
    }

    /// The keys and values of a mapping, in order.
    package var mapping: [(key: YAMLNode, value: YAMLNode)]? {
        self.document.pairs(self.index)?.map { (YAMLNode(self.document, $0), YAMLNode(self.document, $1)) }
    }

    fileprivate static func root(of document: YAMLDocument) -> YAMLNode {
        YAMLNode(document, 1)
    }
}

/// libyaml's parser over bytes that outlive it.
private final class YAMLParser {
    private let parser: UnsafeMutablePointer<yaml_parser_t>

    init(input: UnsafeBufferPointer<UInt8>) {
        self.parser = .allocate(capacity: 1)
        precondition(yaml_parser_initialize(self.parser) == 1, "libyaml found no memory")
        yaml_parser_set_encoding(self.parser, YAML_UTF8_ENCODING)
        yaml_parser_set_input_string(self.parser, input.baseAddress, input.count)
    }

    deinit {
        yaml_parser_delete(self.parser)
        self.parser.deallocate()
    }

    /// The root of the next document; `nil` after the last.
    func next() throws(YAMLError) -> YAMLNode? {
        let document = YAMLDocument()
        guard yaml_parser_load(self.parser, document.pointer) == 1 else { throw self.error }
        return document.isEmpty ? nil : .root(of: document)
    }

    private var error: YAMLError {
        let state = self.parser.pointee
        let problem = state.problem.map { String(cString: $0) } ?? "cannot be read"
        let context = state.context.map { String(cString: $0) + ", " } ?? ""
        return YAMLError(
            line: Int(state.problem_mark.line) + 1, duplicateKey: nil, description: context + problem)
    }
}

/// A document in libyaml's memory.
///
/// `@unchecked Sendable` without a lock: once loaded and substituted it is only read.
private final class YAMLDocument: @unchecked Sendable {
    let pointer: UnsafeMutablePointer<yaml_document_t>
    /// Values of scalars that are not what the document says.
    private var values: [Int32: String] = [:]
    private(set) var errors: [Int32: YAMLSubstitutionError] = [:]

    init() {
        self.pointer = .allocate(capacity: 1)
        self.pointer.initialize(to: yaml_document_t())
    }

    deinit {
        yaml_document_delete(self.pointer)
        self.pointer.deallocate()
    }

    var isEmpty: Bool { yaml_document_get_root_node(self.pointer) == nil }

    /// Nodes are counted from 1.
    private func node(_ index: Int32) -> yaml_node_t {
        guard let node = yaml_document_get_node(self.pointer, index) else {
            preconditionFailure("node \(index) is not of this document")
        }
        return node.pointee
    }

    func line(_ index: Int32) -> Int {
        Int(self.node(index).start_mark.line) + 1
    }

    func scalar(_ index: Int32) -> (text: String, isPlain: Bool)? {
        let node = self.node(index)
        guard node.type == YAML_SCALAR_NODE else { return nil }
        let value = self.values[index]
        // A value from the environment may be a number even where YAML wants quotes around `${NAME}`.
        return (value ?? self.text(of: node), value != nil || node.data.scalar.style == YAML_PLAIN_SCALAR_STYLE)
    }

    func originalText(_ index: Int32) -> String? {
        self.values[index] == nil ? nil : self.text(of: self.node(index))
    }

    private func text(of scalar: yaml_node_t) -> String {
        let bytes = UnsafeBufferPointer(start: scalar.data.scalar.value, count: scalar.data.scalar.length)
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Gives each scalar that is not a key its value.
    func substitute(_ value: (String) throws(YAMLSubstitutionError) -> String) {
        let indices = (1...).lazy.map(Int32.init).prefix { yaml_document_get_node(self.pointer, $0) != nil }
        let keys = Set(indices.flatMap { self.pairs($0) ?? [] }.map(\.0))
        for index in indices where !keys.contains(index) {
            guard let text = self.scalar(index)?.text else { continue }
            do throws(YAMLSubstitutionError) {
                let new = try value(text)
                if new != text { self.values[index] = new }
            } catch {
                self.errors[index] = error
            }
        }
    }

    func elements(_ index: Int32) -> [Int32]? {
        let node = self.node(index)
        guard node.type == YAML_SEQUENCE_NODE else { return nil }
        let items = node.data.sequence.items
        guard let start = items.start, let top = items.top else { return [] }
        return (0..<(top - start)).map { start[$0] }
    }

    func pairs(_ index: Int32) -> [(Int32, Int32)]? {
        let node = self.node(index)
        guard node.type == YAML_MAPPING_NODE else { return nil }
        let pairs = node.data.mapping.pairs
        guard let start = pairs.start, let top = pairs.top else { return [] }
        return (0..<(top - start)).map { (start[$0].key, start[$0].value) }
    }

    /// Finds duplicate keys in mappings, one of which would otherwise be lost silently.
    func checkKeys() throws(YAMLError) {
        var index: Int32 = 1
        while yaml_document_get_node(self.pointer, index) != nil {
            var seen: Set<String> = []
            for (key, _) in self.pairs(index) ?? [] {
                guard let name = self.scalar(key)?.text, !seen.insert(name).inserted else { continue }
                throw YAMLError(
                    line: self.line(key), duplicateKey: name, description: "the key \(name) is given twice")
            }
            index += 1
        }
    }
}
