internal import WaybillData
package import WaybillSystem

extension ArchiveProjection {
    package func setLinksAside() throws(FileSystemError) -> [String] {
        try FileSet.setLinksAside(in: ArchivePair.roots, root: self.root, files: self.files)
    }
}

extension ExportProjection {
    package func setLinksAside() throws(FileSystemError) -> [String] {
        try FileSet.setLinksAside(in: [self.directory], root: self.root, files: self.files)
    }
}
