internal import WaybillData
internal import WaybillExport
internal import WaybillSystem

/// Knows for each kind of file what a problem in it means and how it is repaired.
///
/// - SeeAlso: `Documentation/verification.md`.
struct RepairAdviser: Sendable {
    let root: String

    func repair(of problem: Problem) -> Repair {
        let path = problem.path
        let parts = path.split(separator: "/").map(String.init)
        switch parts.first ?? "" {
        case "exports" where problem.code == .stray: return self.stray
        case "exports" where parts.count >= 4 && !parts[1].hasPrefix("."):
            return self.export(parts[1], env: parts[2], date: parts[3], name: parts.last ?? "")
        case "archive", "quarantine": return self.archive(problem)
        case "journal":
            return Repair(
                meaning: "what the archive and the exports have already read is not affected",
                step: "restore the file from a backup; otherwise start the receiver, which skips these bytes")
        case "state": return self.state(problem)
        default: return self.stray
        }
    }

    private var stray: Repair {
        Repair(
            meaning: "nothing that was acknowledged is in it alone",
            step: "start the receiver, which removes files of its own that no checkpoint has, or move the file away")
    }

    private func export(_ provider: String, env: String, date: String, name: String) -> Repair {
        let day = date.hasPrefix("date=") ? String(date.dropFirst(5)) : ""
        let environment = env.hasPrefix("env=") ? String(env.dropFirst(4)) : ""
        guard CalendarDay(day) != nil else { return self.stray }
        if name.hasSuffix(".delivered") || name.hasPrefix("delivery-") {
            return Repair(
                meaning: "the record of what was delivered is not certain; the events are in the archive",
                step: "restore the file from a backup")
        }
        let command =
            "waybill replay --data \(self.root) --provider \(provider) --env \(environment) --from \(day) --to \(day)"
        return Repair(meaning: "readers of this export get something else than the archive has", step: command)
    }

    private func archive(_ problem: Problem) -> Repair {
        let name = Path.name(of: problem.path)
        if problem.code == .stray { return self.stray }
        if name == DayFolder.successName || name == DayFolder.manifestName {
            return Repair(
                meaning: "the lines are not affected, but readers of sealed days take the wrong files",
                step: "restore the file from a backup, or run waybill seal --data \(self.root)")
        }
        if name.hasSuffix(".ndjson.gz") {
            return Repair(
                meaning: "events of this day are lost or changed in every later replay",
                step: "restore the file from a backup")
        }
        if name == "_erasures" { return Self.erasures }
        if name.hasPrefix("_") {
            return Repair(meaning: "the record of deleted days is not certain", step: "restore the file from a backup")
        }
        if name.hasSuffix(".sources") {
            return Repair(
                meaning: "a replay leaves out the lines whose origin is not recorded, or reads them wrongly",
                step: "restore the file from a backup")
        }
        return Repair(
            meaning: "lines are lost or changed in every later replay, unless the journal still has them",
            step: "stop the receiver, move the file and its .sources away, and start it: it writes both again from the "
                + "journal; if the journal no longer has the lines, restore the file from a backup")
    }

    private static var erasures: Repair {
        Repair(
            meaning: "a copy of the record of erased people is not whole; unless state/erasures or archive/_erasures "
                + "is, nothing reads events",
            step: "start the receiver, which makes the copy again from the other one; if it refuses, restore both from "
                + "a backup")
    }

    private func state(_ problem: Problem) -> Repair {
        let name = Path.name(of: problem.path)
        if name == "archive.state" {
            return Repair(
                meaning: "a start goes back to an older checkpoint, and writes the lines after it again",
                step: "start the receiver, which continues from the journal or the .sources")
        }
        if name.hasPrefix("export-"), name.hasSuffix(".state") {
            let provider = name.dropFirst("export-".utf8.count).dropLast(".state".utf8.count)
            return Repair(
                meaning: "a start goes back to an older checkpoint, or begins the export again",
                step: "start the receiver; if its log names a range that is missing, stop it and run waybill replay "
                    + "--data \(self.root) --provider \(provider)")
        }
        if name == "erasures" { return Self.erasures }
        return Repair(
            meaning: "what this file recorded is not certain; events are not affected",
            step: "restore the file from a backup")
    }
}
