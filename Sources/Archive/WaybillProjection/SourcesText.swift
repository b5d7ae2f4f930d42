package import WaybillData
internal import WaybillProtocol

/// The numbers of streams in a `.sources` file that is written again, and its lines.
package struct SourcesText {
    private var numbers: [StreamDescription: Int] = [:]

    package init() {}

    /// The line of a run, after that of its stream if the file has none of it yet.
    package mutating func line(of run: SourceRun) -> [UInt8] {
        let known = self.numbers[run.description]
        let number = known ?? self.numbers.count + 1
        self.numbers[run.description] = number
        var text: [UInt8] = []
        if known == nil { SourceRun.introduce(run.description, as: number, in: &text) }
        run.append(to: &text, number: number)
        return text
    }
}
