import WaybillExport
import WaybillJSON
import WaybillSystem
import WaybillYAML

/// Values of mapping files.
private enum MappingValue {
    /// 1 to 1024 bytes without control characters.
    static func isName(_ name: String) -> Bool {
        1...1024 ~= name.utf8.count && name.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value != 0x7F }
    }

    /// The names and values of a section whose keys the operator chooses.
    static func pairs<Value>(
        name: String, rule: String, read: @escaping (_ name: String, _ node: YAMLNode) -> Value?
    ) -> ValueType<[Value]> {
        ValueType(name: name) { node, reading in
            guard let mapping = node.mapping, !mapping.isEmpty else {
                reading.problems.append(ValueProblem(text: "must be a section; indent NAME: VALUE below it"))
                return nil
            }
            return mapping.compactMap { key, node in
                let value = key.string.flatMap { read($0, node) }
                if value == nil { reading.problems.append(ValueProblem(line: node.line, text: "must be \(rule)")) }
                return value
            }
        } show: {
            "\($0.count)"
        }
    }

    /// A scalar as compact JSON; unquoted `true`, `false` and numbers are not strings.
    static func json(_ node: YAMLNode) -> String? {
        guard let text = node.string else { return nil }
        if node.isPlain {
            if text.isEmpty || ["null", "~", "Null", "NULL"].contains(text) { return nil }
            switch Self.jsonKind(text) {
            case .true, .false, .number: return text
            case .null, .string, .array, .object, nil: break
            }
        }
        var json = JSONWriter()
        json.string(text)
        return String(decoding: json.output.bytes, as: UTF8.self)
    }

    static func jsonKind(_ text: String) -> JSONKind? {
        var text = text
        return text.withUTF8 { bytes in
            do throws(JSONError) {
                return try JSONScanner.scanValue(UnsafeRawBufferPointer(bytes))
            } catch {
                return nil
            }
        }
    }
}

extension ValueType<String> {
    /// A name: 1 to 128 bytes without control characters.
    static var name: ValueType {
        .text(rule: "1 to 128 bytes without control characters") { $0.utf8.count <= 128 && MappingValue.isName($0) }
    }

    /// A column's value for events without one: text for strings and times, JSON for other types.
    static func columnDefault(of type: CustomOptions.ColumnType) -> ValueType {
        .scalar("value", rule: "a value of a column of type \(type.rawValue)") {
            $0
        } read: { node in
            let text = node.string
            let json = MappingValue.json(node)
            switch type {
            case .string: return text
            case .time: return text.flatMap(TimeText.parse(text:)) == nil ? nil : text
            case .number: return json.flatMap(MappingValue.jsonKind) == .number ? json : nil
            case .boolean: return json == "true" || json == "false" ? json : nil
            case .json: return json
            }
        }
    }
}

extension ValueType<[String]> {
    /// Names, or prefixes of names followed by `*`.
    static var patterns: ValueType {
        ValueType.list(of: "names", rule: "a list of names; only the end of one may be *") {
            $0
        } read: { node in
            node.string.flatMap { MappingValue.isName($0) && !$0.dropLast().contains("*") ? $0 : nil }
        }
    }
}

extension ValueType<[OperatorMapping.Rename]> {
    /// New names by old name.
    static var renames: ValueType {
        MappingValue.pairs(name: "OLD: NEW", rule: "OLD: NEW, two different names without *") { name, node in
            guard let new = node.string, MappingValue.isName(name), MappingValue.isName(new), name != new,
                !name.contains("*"), !new.contains("*")
            else { return nil }
            return OperatorMapping.Rename(from: name, to: new)
        }
    }
}

extension ValueType<[OperatorMapping.Constant]> {
    static var constants: ValueType {
        MappingValue.pairs(
            name: "FIELD: VALUE", rule: "FIELD: VALUE; a value is a text, a number, true or false"
        ) { name, node in
            guard MappingValue.isName(name), let json = MappingValue.json(node) else { return nil }
            return OperatorMapping.Constant(name: name, json: json)
        }
    }
}
