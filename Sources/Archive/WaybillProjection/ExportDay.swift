package import WaybillEvent
package import WaybillSystem

/// One environment's day of an export, which is a folder: `env=prod/date=2026-11-20`.
package struct ExportDay: Hashable, Comparable, Sendable, CustomStringConvertible {
    package let env: DeploymentEnvironment
    package let day: CalendarDay

    package init(env: DeploymentEnvironment, day: CalendarDay) {
        self.env = env
        self.day = day
    }

    /// Parses the end of a partition's path, `env=prod/date=2026-11-20`; `nil` for other paths.
    package init?(partition path: String) {
        let components = path.split(separator: "/").suffix(2).map(String.init)
        guard components.count == 2, components[0].hasPrefix("env="), components[1].hasPrefix("date="),
            let env = DeploymentEnvironment(rawValue: String(components[0].dropFirst(4))),
            let day = CalendarDay(String(components[1].dropFirst(5)))
        else { return nil }
        self.init(env: env, day: day)
    }

    package static func < (left: ExportDay, right: ExportDay) -> Bool {
        (left.env.rawValue, left.day) < (right.env.rawValue, right.day)
    }

    /// The end of the partition's path.
    package var description: String { "env=\(self.env.rawValue)/date=\(self.day)" }

    /// The partition's folder below another one.
    package func path(below directory: String) -> String {
        "\(directory)/\(self)"
    }
}
