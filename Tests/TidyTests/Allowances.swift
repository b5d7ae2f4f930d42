/// What breaks a rule today, counted by rule and file: the counts may fall and never rise.
struct Allowances: Hashable, Sendable {
    struct Key: Hashable, Sendable {
        let rule: String
        let path: String
    }

    var counts: [Key: Int] = [:]

    /// Reads lines of a rule, a count and a path; `#` begins a comment.
    init(_ text: String) throws(MalformedAllowance) {
        for line in text.split(separator: "\n") where !line.hasPrefix("#") {
            let parts = line.split(separator: " ", maxSplits: 2).map(String.init)
            guard parts.count == 3, let count = Int(parts[1]), count > 0 else {
                throw MalformedAllowance(line: String(line))
            }
            self.counts[Key(rule: parts[0], path: parts[2])] = count
        }
    }

    /// Findings of `rule` that exceed the list, and entries of the list that are higher than needed.
    func complaints(_ rule: String, _ found: [String: [Finding]]) -> [String] {
        var complaints: [String] = []
        for (path, findings) in found where findings.count > self.counts[Key(rule: rule, path: path), default: 0] {
            let allowed = self.counts[Key(rule: rule, path: path), default: 0]
            if allowed > 0 { complaints.append("\(path): \(findings.count) of \(rule), \(allowed) allowed") }
            complaints += findings.map { "\(path)\($0.line > 0 ? ":\($0.line)" : ""): \($0.text)" }
        }
        for (key, allowed) in self.counts where key.rule == rule {
            let count = found[key.path]?.count ?? 0
            if count < allowed {
                complaints.append(
                    "Allowed.txt has `\(rule) \(allowed) \(key.path)`, and \(count) are left: TIDY_UPDATE=1 lowers it")
            }
        }
        return complaints.sorted()
    }

    /// Lowers what is higher than needed for the findings of `rule`; raises nothing.
    mutating func lower(_ rule: String, to found: [String: [Finding]]) {
        for (key, allowed) in self.counts where key.rule == rule {
            let count = found[key.path]?.count ?? 0
            self.counts[key] = count == 0 ? nil : min(allowed, count)
        }
    }

    /// The lines of the file, in order.
    var text: String {
        let lines = self.counts.map { "\($0.key.rule) \($0.value) \($0.key.path)\n" }
        return Self.head + lines.sorted().joined()
    }

    private static let head = """
        # What breaks a rule of TidyTests today: the rule, how often, and where. A count may fall and never rise.
        # `TIDY_UPDATE=1 swift test --filter TidyTests` lowers what is too high; nothing raises it.

        """
}

/// A line that is not a rule, a count and a path.
struct MalformedAllowance: Error, Hashable {
    let line: String
}
