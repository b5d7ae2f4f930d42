public import Foundation

open class FirebaseApp: NSObject {
    open class func configure() {}
}
