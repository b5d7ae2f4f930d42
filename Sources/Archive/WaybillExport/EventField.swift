internal import WaybillJSON

/// A top-level member of the event schema, version 1 (`Protocol/event.schema.json`).
package enum EventField: UInt8, CaseIterable {
    case v, id, writer, seq, ts, up, dt, kind, name, screen, screenClass, screenID, prev, prevMilliseconds, session
    case sessionNumber, user, anon, ids, traits, traitsOnce, traitsAdd, app, build, bundle, os, osVersion, model, lang
    case tz, env, log, data, providers, overrides, consent, sampleRate, country, userAgent

    var name: StaticString {
        switch self {
        case .v: "v"
        case .id: "id"
        case .writer: "writer"
        case .seq: "seq"
        case .ts: "ts"
        case .up: "up"
        case .dt: "dt"
        case .kind: "kind"
        case .name: "name"
        case .screen: "screen"
        case .screenClass: "screen_class"
        case .screenID: "screen_id"
        case .prev: "prev"
        case .prevMilliseconds: "prev_ms"
        case .session: "session"
        case .sessionNumber: "session_n"
        case .user: "user"
        case .anon: "anon"
        case .ids: "ids"
        case .traits: "traits"
        case .traitsOnce: "traits_once"
        case .traitsAdd: "traits_add"
        case .app: "app"
        case .build: "build"
        case .bundle: "bundle"
        case .os: "os"
        case .osVersion: "os_version"
        case .model: "model"
        case .lang: "lang"
        case .tz: "tz"
        case .env: "env"
        case .log: "log"
        case .data: "data"
        case .providers: "providers"
        case .overrides: "overrides"
        case .consent: "consent"
        case .sampleRate: "sample_rate"
        case .country: "country"
        case .userAgent: "user_agent"
        }
    }

    /// The field of that name, which has no escapes: length and first byte leave one or two candidates.
    @inline(__always)
    static func named(_ key: UnsafeRawBufferPointer) -> EventField? {
        guard let start = key.baseAddress, key.count > 0 else { return nil }
        let first = start.load(as: UInt8.self)
        let candidate: EventField
        switch key.count {
        case 1: candidate = .v
        case 2:
            let second = start.load(fromByteOffset: 1, as: UInt8.self)
            switch (first, second) {
            case (UInt8(ascii: "i"), UInt8(ascii: "d")): return .id
            case (UInt8(ascii: "t"), UInt8(ascii: "s")): return .ts
            case (UInt8(ascii: "u"), UInt8(ascii: "p")): return .up
            case (UInt8(ascii: "d"), UInt8(ascii: "t")): return .dt
            case (UInt8(ascii: "o"), UInt8(ascii: "s")): return .os
            case (UInt8(ascii: "t"), UInt8(ascii: "z")): return .tz
            default: return nil
            }
        case 3: candidate = Self.ofThree(first)
        case 4: candidate = Self.ofFour(first)
        case 5: candidate = first == UInt8(ascii: "m") ? .model : .build
        case 6: candidate = Self.ofSix(first)
        case 7:
            let third = start.load(fromByteOffset: 2, as: UInt8.self)
            candidate = Self.ofSeven(first, third)
        case 9:
            if first == UInt8(ascii: "s") {
                let third = start.load(fromByteOffset: 2, as: UInt8.self)
                candidate = third == UInt8(ascii: "s") ? .sessionNumber : .screenID
            } else {
                candidate = first == UInt8(ascii: "p") ? .providers : .overrides
            }
        case 10: candidate = Self.ofTen(first)
        case 11: candidate = first == UInt8(ascii: "t") ? .traitsOnce : .sampleRate
        case 12: candidate = .screenClass
        default: return nil
        }
        return JSONText.equals(key, isEscaped: false, candidate.name) ? candidate : nil
    }

    private static func ofThree(_ first: UInt8) -> EventField {
        switch first {
        case UInt8(ascii: "s"): .seq
        case UInt8(ascii: "a"): .app
        case UInt8(ascii: "e"): .env
        case UInt8(ascii: "l"): .log
        default: .ids
        }
    }

    private static func ofFour(_ first: UInt8) -> EventField {
        switch first {
        case UInt8(ascii: "k"): .kind
        case UInt8(ascii: "n"): .name
        case UInt8(ascii: "u"): .user
        case UInt8(ascii: "a"): .anon
        case UInt8(ascii: "d"): .data
        case UInt8(ascii: "p"): .prev
        default: .lang
        }
    }

    private static func ofSix(_ first: UInt8) -> EventField {
        switch first {
        case UInt8(ascii: "w"): .writer
        case UInt8(ascii: "s"): .screen
        case UInt8(ascii: "b"): .bundle
        default: .traits
        }
    }

    private static func ofSeven(_ first: UInt8, _ third: UInt8) -> EventField {
        switch first {
        case UInt8(ascii: "s"): .session
        case UInt8(ascii: "p"): .prevMilliseconds
        default: third == UInt8(ascii: "u") ? .country : .consent
        }
    }

    private static func ofTen(_ first: UInt8) -> EventField {
        switch first {
        case UInt8(ascii: "u"): .userAgent
        case UInt8(ascii: "t"): .traitsAdd
        default: .osVersion
        }
    }

    /// The field that an escaped key names.
    static func named(escaped key: UnsafeRawBufferPointer) -> EventField? {
        Self.allCases.first { JSONText.equals(key, isEscaped: true, $0.name) }
    }
}
