import WaybillAgent
import WaybillEvent
import WaybillExport
import WaybillJSON
import WaybillProjection
import WaybillSystem
import WaybillTail
import WaybillYAML

/// A problem with a value.
struct ValueProblem {
    /// The line of a list's element; `nil` for the line of the key.
    var line: Int?
    let text: String
}

/// The context of reading a value, and the problems found.
struct ValueReading {
    /// The base of relative paths.
    let directory: String
    var problems: [ValueProblem] = []
}

/// The type of a key's values: how they are read, and how logs and the reference page show them.
struct ValueType<Value> {
    /// The name in the reference page, such as `whole number`.
    let name: String
    /// The range in the reference page; empty if the name is enough.
    var range = ""
    let read: (_ node: YAMLNode, _ reading: inout ValueReading) -> Value?
    let show: (Value) -> String

    /// One scalar.
    ///
    /// - Parameter rule: completes "must be …".
    static func scalar(
        _ name: String, range: String = "", rule: String? = nil, show: @escaping (Value) -> String,
        read: @escaping (YAMLNode) -> Value?
    ) -> ValueType {
        ValueType(name: name, range: range) { node, reading in
            let value = read(node)
            let fallback = range.isEmpty ? "a \(name)" : "a \(name) from \(range)"
            if value == nil { reading.problems.append(ValueProblem(text: "must be \(rule ?? fallback)")) }
            return value
        } show: {
            show($0)
        }
    }

    /// A list; a single value stands for a list of one.
    static func list<Element>(
        of name: String, rule: String, show: @escaping (Element) -> String,
        read: @escaping (YAMLNode) -> Element?
    ) -> ValueType<[Element]> {
        ValueType<[Element]>(name: "list of \(name)") { node, reading in
            let nodes = node.isScalar ? [node] : node.sequence ?? []
            if nodes.isEmpty {
                reading.problems.append(ValueProblem(text: "must be \(rule); remove the key if there is none"))
            }
            return nodes.compactMap { node in
                let element = read(node)
                if element == nil { reading.problems.append(ValueProblem(line: node.line, text: "must be \(rule)")) }
                return element
            }
        } show: {
            $0.map(show).joined(separator: ", ")
        }
    }

    /// A type of other values that are written in the same way.
    func map<Other>(
        _ transform: @escaping (Value) -> Other, back: @escaping (Other) -> Value
    ) -> ValueType<Other> {
        let read = self.read
        let show = self.show
        return ValueType<Other>(name: self.name, range: self.range) { node, reading in
            read(node, &reading).map(transform)
        } show: {
            show(back($0))
        }
    }
}

extension ValueType<String> {
    static var text: ValueType {
        .text { _ in true }
    }

    /// A path, relative to the folder of the configuration file.
    static var file: ValueType {
        let text = ValueType.text
        return ValueType(name: "file") { node, reading in
            let directory = reading.directory
            return text.read(node, &reading).map { name in
                name.hasPrefix("/") || directory == "." ? name : Path.join(directory, name)
            }
        } show: {
            $0
        }
    }

    static func text(
        _ name: String = "text", rule: String = "a text", isValid: @escaping (String) -> Bool
    ) -> ValueType {
        .scalar(name, rule: rule) {
            $0
        } read: { node in
            node.string.flatMap { $0.isEmpty || !isValid($0) ? nil : $0 }
        }
    }
}

extension ValueType<[String]> {
    static var texts: ValueType {
        ValueType.list(of: "texts", rule: "a text or a list of texts") {
            $0
        } read: {
            $0.string
        }
    }
}

extension ValueType<Int> {
    /// - Parameter factor: the stored value divided by the value in the file.
    static func integer(_ range: ClosedRange<Int>, factor: Int = 1) -> ValueType {
        let text = "\(range.lowerBound) to \(range.upperBound)"
        return .scalar("whole number", range: text) {
            "\($0 / factor)"
        } read: { node in
            node.int.flatMap { range.contains($0) ? $0 * factor : nil }
        }
    }

    /// Seconds after midnight.
    static var timeOfDay: ValueType {
        let rule = "a time of day from \"00:00\" to \"23:59\", e.g. \"04:00\""
        return .scalar("time of day", rule: rule) { second in
            func digits(_ value: Int) -> String { value < 10 ? "0\(value)" : "\(value)" }
            return "\(digits(second / 3600)):\(digits(second / 60 % 60))"
        } read: { node in
            // Without quotes YAML 1.1 reads 04:00 as the number 240; the node still has the text.
            let parts = (node.string ?? "").split(separator: ":", omittingEmptySubsequences: false)
            guard parts.count == 2, parts.allSatisfy({ $0.utf8.count == 2 }), let hour = Int(parts[0]),
                let minute = Int(parts[1]), (0..<24).contains(hour), (0..<60).contains(minute)
            else { return nil }
            return hour * 3600 + minute * 60
        }
    }
}

extension ValueType<Duration> {
    static func duration(_ range: ClosedRange<Int>, unit: Duration) -> ValueType {
        ValueType<Int>.integer(range).map {
            unit * $0
        } back: {
            Int($0.nanoseconds / unit.nanoseconds)
        }
    }
}

extension ValueType<Duration> {
    /// `off`, or a number of seconds, minutes or hours; off is zero.
    static var age: ValueType {
        let units = [("h", 3600), ("m", 60), ("s", 1)]
        let rule = "off, or 1s to 24h in whole seconds, minutes or hours, e.g. 5m"
        return .scalar("off or a duration", range: "1s to 24h", rule: rule) { age in
            let seconds = Int(age.nanoseconds / 1_000_000_000)
            guard seconds > 0, let unit = units.first(where: { seconds % $0.1 == 0 }) else { return "off" }
            return "\(seconds / unit.1)\(unit.0)"
        } read: { node in
            if node.bool == false { return .zero }
            guard let text = node.string, let unit = units.first(where: { text.hasSuffix($0.0) }),
                let count = Int(text.dropLast()), (1...86_400 / unit.1).contains(count)
            else { return nil }
            return .seconds(count * unit.1)
        }
    }
}

extension ValueType<Bool> {
    static var flag: ValueType {
        .scalar("on or off", rule: "on or off") {
            $0 ? "on" : "off"
        } read: {
            $0.bool
        }
    }
}

/// The raw values of an enumeration: `a, b or c`.
func choiceList<Choice: RawRepresentable<String> & CaseIterable>(_ type: Choice.Type) -> String {
    let names = Choice.allCases.map(\.rawValue)
    return names.count < 2
        ? names.joined() : names.dropLast().joined(separator: ", ") + " or " + names[names.count - 1]
}

extension ValueType where Value: RawRepresentable<String> & CaseIterable {
    static var choice: ValueType {
        .scalar(choiceList(Value.self), rule: choiceList(Value.self)) {
            $0.rawValue
        } read: {
            $0.string.flatMap(Value.init(rawValue:))
        }
    }

    static var choices: ValueType<[Value]> {
        let names = choiceList(Value.self)
        return ValueType.list(of: names, rule: "a list of \(names)") {
            $0.rawValue
        } read: {
            $0.string.flatMap(Value.init(rawValue:))
        }
    }
}

extension ValueType<NetworkAddress> {
    static var address: ValueType {
        .scalar("HOST:PORT", rule: "HOST:PORT, e.g. 127.0.0.1:4390") {
            "\($0)"
        } read: {
            $0.string.flatMap { NetworkAddress($0) }
        }
    }
}

extension ValueType<ListeningPlace> {
    static var place: ValueType {
        .scalar("text", rule: "HOST:PORT or an absolute path") {
            "\($0)"
        } read: {
            $0.string.flatMap { ListeningPlace($0) }
        }
    }
}

extension ValueType<[NetworkAddress]> {
    static var addresses: ValueType {
        ValueType.list(of: "HOST:PORT", rule: "HOST:PORT, e.g. 127.0.0.1:4390") {
            "\($0)"
        } read: {
            $0.string.flatMap { NetworkAddress($0) }
        }
    }
}

extension ValueType<TimeZoneRules> {
    static var zone: ValueType {
        ValueType(name: "time zone, e.g. Asia/Seoul") { node, reading in
            do throws(TimeZoneError) {
                return try TimeZoneRules(named: node.string ?? "", from: POSIXFileSystem())
            } catch {
                reading.problems.append(ValueProblem(text: "\(error)"))
                return nil
            }
        } show: {
            $0.name
        }
    }
}

extension ValueType<EnvironmentSet> {
    static var environments: ValueType {
        ValueType<DeploymentEnvironment>.choices.map {
            EnvironmentSet($0)
        } back: {
            $0.environments
        }
    }
}

extension ValueType<AgentName> {
    static var agentName: ValueType {
        .scalar("name", rule: AgentName.rule) {
            $0.description
        } read: {
            $0.string.flatMap(AgentName.init)
        }
    }
}

extension AgentName {
    /// Completes "must be …".
    static var rule: String { "1 to \(Self.byteCountMax) letters, digits, '.', '_', ':' and '-'" }
}
