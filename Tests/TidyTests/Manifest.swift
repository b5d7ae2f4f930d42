import Foundation

/// What `Package.swift` declares, as far as the rules look at it.
struct Manifest: Sendable {
    struct Target: Hashable, Sendable {
        let name: String
        /// The folder of its sources.
        let folder: String
        /// Modules that it declares, in order.
        let dependencies: [String]
        var isTest = false

        var module: String { self.name.replacing("-", with: "_") }
    }

    struct Product: Hashable, Sendable {
        let name: String
        let targets: [String]
    }

    /// In the order of the file.
    var targets: [Target]
    var products: [Product]

    init(targets: [Target], products: [Product] = []) {
        self.targets = targets
        self.products = products
    }

    /// Reads what `swift package dump-package` prints.
    init(json: Data) throws {
        let dump = try JSONDecoder().decode(Dump.self, from: json)
        self.init(
            targets: dump.targets.map { target in
                Target(
                    name: target.name,
                    folder: target.path ?? (target.type == "test" ? "Tests/" : "Sources/") + target.name,
                    dependencies: target.dependencies.map { $0.name.replacing("-", with: "_") },
                    isTest: target.type == "test")
            },
            products: dump.products.map { Product(name: $0.name, targets: $0.targets) })
    }
}

private struct Dump: Decodable {
    struct Target: Decodable {
        let name: String
        let type: String
        let path: String?
        let dependencies: [Dependency]
    }

    struct Product: Decodable {
        let name: String
        let targets: [String]
    }

    /// `{"byName": ["Waybill", null]}`, `{"target": [name, condition]}`, or `{"product": [name, package, …]}`.
    struct Dependency: Decodable {
        let name: String

        private struct Kind: CodingKey {
            let stringValue: String
            var intValue: Int? { nil }

            init?(stringValue: String) { self.stringValue = stringValue }
            init?(intValue: Int) { nil }
        }

        init(from decoder: any Decoder) throws {
            let kinds = try decoder.container(keyedBy: Kind.self)
            guard let kind = kinds.allKeys.first else {
                throw DecodingError.dataCorrupted(.init(codingPath: decoder.codingPath, debugDescription: "no kind"))
            }
            var parts = try kinds.nestedUnkeyedContainer(forKey: kind)
            self.name = try parts.decode(String.self)
        }
    }

    let targets: [Target]
    let products: [Product]
}
