// Command etcd is etcd as a library builds it: the benchmark compares memoryd with it, and `go install` of etcd itself
// is refused, since its go.mod has replace directives.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
