internal import WaybillJSON
package import WaybillSystem

/// The catalogue of events as a file: `names.json`.
///
/// - SeeAlso: `Protocol/names.schema.json`
package struct NamesDocument: Sendable, Equatable {
    /// An event's name.
    package struct Name: Sendable, Equatable {
        package var name: String
        package var kind: String
        package var count: Int
        /// Different people; `nil` if they are not known.
        package var people: Int?
        package var first: WallTime
        package var last: WallTime
        /// The app's versions that sent it.
        package var versions: [String]
        package var properties: [Property]

        package init(
            name: String, kind: String, count: Int, people: Int? = nil, first: WallTime, last: WallTime,
            versions: [String], properties: [Property]
        ) {
            self.name = name
            self.kind = kind
            self.count = count
            self.people = people
            self.first = first
            self.last = last
            self.versions = versions
            self.properties = properties
        }
    }

    /// A property of an event.
    package struct Property: Sendable, Equatable {
        /// As filters and conditions name it: `data.method`.
        package var path: String
        /// How many events have it.
        package var count: Int
        package var first: WallTime
        package var last: WallTime
        package var types: [PropertyType]

        package init(path: String, count: Int, first: WallTime, last: WallTime, types: [PropertyType]) {
            self.path = path
            self.count = count
            self.first = first
            self.last = last
            self.types = types
        }

        /// Whether it has values of two types; integer and number are one.
        package var isConflict: Bool {
            Set(self.types.map { $0.name == "integer" ? "number" : $0.name }).count > 1
        }

        /// The versions of all types, in order.
        var versions: [String] {
            Set(self.types.flatMap(\.versions)).sorted(by: String.isOrdered)
        }
    }

    /// A type of a property's values.
    package struct PropertyType: Sendable, Equatable {
        /// string, integer, number, boolean, array or object.
        package var name: String
        package var count: Int
        package var versions: [String]

        package init(name: String, count: Int, versions: [String]) {
            self.name = name
            self.count = count
            self.versions = versions
        }
    }

    /// The environment and the app; `nil` if it is about several.
    package var environment: String?
    package var app: String?
    package var names: [Name]

    package init(environment: String? = nil, app: String? = nil, names: [Name]) {
        self.environment = environment
        self.app = app
        self.names = names
    }

    package var json: [UInt8] {
        JSONWriter.object { json in
            json.member("v", 1)
            if let environment { json.member("env", environment) }
            if let app { json.member("app", app) }
            json.member("names", objects: self.names) { json, name in
                json.member("name", name.name)
                json.member("kind", name.kind)
                json.member("count", name.count)
                if let people = name.people { json.member("people", people) }
                json.member("first", name.first.text)
                json.member("last", name.last.text)
                json.member("versions", array: name.versions) { $0.string($1) }
                json.member("properties", objects: name.properties) { Self.write($1, to: &$0) }
            }
        }
    }

    private static func write(_ property: Property, to json: inout JSONWriter) {
        json.member("path", property.path)
        json.member("count", property.count)
        json.member("first", property.first.text)
        json.member("last", property.last.text)
        json.member("types", objects: property.types) { json, type in
            json.member("type", type.name)
            json.member("count", type.count)
            json.member("versions", array: type.versions) { $0.string($1) }
        }
        json.member("conflict", property.isConflict)
    }
}
