internal import WaybillJSON

/// Changes members of objects in a value.
enum ObjectEditor {
    /// - Parameter value: JSON that the client wrote: an object or a list.
    static func edit(
        _ value: [UInt8], _ name: String, _ change: (UnsafeBufferPointer<UInt8>) -> [UInt8]?
    ) -> [UInt8] {
        let wrapped = Array("{\"v\":".utf8) + value + Array("}".utf8)
        return wrapped.withUnsafeBytes { bytes in
            var tape = JSONTape()
            do throws(JSONError) {
                try tape.parse(bytes)
            } catch {
                preconditionFailure("the client wrote a value that is not JSON: \(error)")
            }
            var output: [UInt8] = []
            Self.write(2, of: tape, name, change, into: &output)
            return output
        }
    }

    private static func write(
        _ index: Int, of tape: borrowing JSONTape, _ name: String,
        _ change: (UnsafeBufferPointer<UInt8>) -> [UInt8]?, into output: inout [UInt8]
    ) {
        switch tape[index].kind {
        case .object:
            output.append(UInt8(ascii: "{"))
            var members = tape.members(of: index)
            var isFirst = true
            while let (key, value) = members.next(in: tape) {
                var changed: [UInt8]?
                if JSONText.string(tape.bytes(of: key)) == name {
                    changed = Self.text(of: value, tape).withUnsafeBufferPointer(change)
                    if changed == nil { continue }
                }
                if !isFirst { output.append(UInt8(ascii: ",")) }
                isFirst = false
                output += Self.text(of: key, tape) + [UInt8(ascii: ":")]
                if let changed {
                    output += changed
                } else {
                    Self.write(value, of: tape, name, change, into: &output)
                }
            }
            output.append(UInt8(ascii: "}"))
        case .array:
            output.append(UInt8(ascii: "["))
            var element = index + 1
            while element < Int(tape[index].next) {
                if element > index + 1 { output.append(UInt8(ascii: ",")) }
                Self.write(element, of: tape, name, change, into: &output)
                element = Int(tape[element].next)
            }
            output.append(UInt8(ascii: "]"))
        case .string, .number, .true, .false, .null:
            output += Self.text(of: index, tape)
        }
    }

    /// The value as written, with quotes if it is a string.
    private static func text(of index: Int, _ tape: borrowing JSONTape) -> [UInt8] {
        let bytes = Array(tape.bytes(of: index))
        guard tape[index].kind == .string else { return bytes }
        return [UInt8(ascii: "\"")] + bytes + [UInt8(ascii: "\"")]
    }
}
