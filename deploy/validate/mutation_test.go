package validate

import (
	"path"
	"strings"
	"testing"
)

// mutation is a slip in a file of deploy/, and what is to be said about it.
type mutation struct{ file, old, new, want string }

// mutate returns the files with a slip.
func (m mutation) mutate(t *testing.T, files Files) {
	t.Helper()
	before := files[m.file]
	if files[m.file] = strings.Replace(before, m.old, m.new, 1); files[m.file] == before {
		t.Fatalf("%s has no %q", m.file, m.old)
	}
}

const (
	baseConfig  = "kubernetes/base/kustomization.yaml"
	statefulSet = "kubernetes/base/statefulset.yaml"
	services    = "kubernetes/base/services.yaml"
	netPolicy   = "kubernetes/base/networkpolicy.yaml"
	agent       = "kubernetes/sidecar/agent.yaml"
	job         = "kubernetes/restore/job.yaml"
	backup      = "kubernetes/components/backup/kustomization.yaml"
	monitor     = "kubernetes/components/prometheus/servicemonitor.yaml"
)

// TestKubernetes_Mutations breaks the manifests, one slip at a time, and wants each to be found.
func TestKubernetes_Mutations(t *testing.T) {
	k := newKubernetes(t)
	for _, m := range []mutation{
		{baseConfig, "resources:", "resource:", `unknown field "resource"`},
		{baseConfig, "  - services.yaml\n", "", "there is no headless Service"},
		{baseConfig, "MEMORYD_LOG_FORMAT", "MEMORYD_LOGFORMAT", "MEMORYD_LOGFORMAT belongs to no setting"},
		{baseConfig, "MEMORYD_DATA=/data", "MEMORYD_DATA=/var/lib/memoryd", "where no volume is mounted"},
		{baseConfig, "MEMORYD_DATA=/data", "MEMORYD_DATA=/etc/memoryd/tls", "mounted read-only"},
		{baseConfig, "tls/tls.crt", "tls/cert.pem", "but the volume has [tls.crt tls.key]"},
		{baseConfig, "/principals.yaml", "/callers.yaml", "but the volume has [principals.yaml]"},
		{baseConfig, "MEMORYD_HTTP=:7712", "MEMORYD_HTTP=:7713", "not that of MEMORYD_HTTP"},
		{baseConfig, "=67108864", "=268435456", "an eighth of the memory limit"},
		{baseConfig, "- MEMORYD_AUDIT_LOG=-", "- MEMORYD_SHUTDOWN_TIMEOUT=30s", "killed after 30s"},
		{statefulSet, "replicas: 1", "replicas: 2", "more than one pod"},
		{statefulSet, "serviceName: memoryd-headless", "serviceName: memoryd", "there is no headless Service"},
		{statefulSet, "serviceAccountName: memoryd", "serviceAccountName: memory", "no ServiceAccount memory"},
		{statefulSet, "  serviceName:", "  servicename:", `unknown field "spec.servicename"`},
		{statefulSet, "runAsNonRoot: true", "runAsNonRoot: false", "runAsNonRoot"},
		{statefulSet, "runAsUser: 65532", "runAsUser: 0", "runAsUser=0"},
		{statefulSet, "type: RuntimeDefault", "type: Unconfined", "seccomp"},
		{statefulSet, "drop: [ALL]", "drop: [NET_RAW]", "unrestricted capabilities"},
		{statefulSet, "allowPrivilegeEscalation: false", "allowPrivilegeEscalation: true", "allowPrivilegeEscalation"},
		{statefulSet, "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "root is not read-only"},
		{statefulSet, "      automountServiceAccountToken: false\n", "", "automountServiceAccountToken is not false"},
		{statefulSet, "enableServiceLinks: false", "enableServiceLinks: true", "enableServiceLinks is not false"},
		{statefulSet, "terminationGracePeriodSeconds: 30", "terminationGracePeriodSeconds: 10", "killed after 10s"},
		{statefulSet, "memoryd:v0.0.0", "memoryd:latest", "no tag with a version"},
		{statefulSet, "memoryd:v0.0.0", "memoryd", "no tag with a version"},
		{statefulSet, "value: 920MiB", "value: 1024MiB", "GOMEMLIMIT"},
		{statefulSet, "memory: 1Gi", "cpu: 1", "no memory limit"},
		{statefulSet, "cpu: 100m", "ephemeral-storage: 1Gi", "lacks requests"},
		{statefulSet, "name: https\n              c", "name: side\n              c", "not that of MEMORYD_HTTP"},
		{statefulSet, "scheme: HTTPS", "scheme: HTTP", "speaks HTTP, and the side port HTTPS"},
		{statefulSet, "path: /readyz", "path: /ready", `readiness probe asks for "/ready"`},
		{statefulSet, "readinessProbe:", "livenessProbe:", "already defined"},
		{statefulSet, "startupProbe:", "startup:", "unknown field"},
		{statefulSet, "- name: data\n              m", "- name: dat\n              m", `volume "dat", which is not there`},
		{statefulSet, "secretName: memoryd-tls", "secretName: memoryd-cert", "no Secret memoryd-cert"},
		{statefulSet, "defaultMode: 0440", "defaultMode: 0444", "every user can read the Secret memoryd-tls"},
		{statefulSet, "mountPath: /etc/memoryd/tls\n", "mountPath: /etc/memoryd/tls\n              subPath: x\n", "subPath"},
		{statefulSet, "mountPath: /etc/memoryd/tls", "mountPath: /data", "two volumes are mounted at /data"},
		{services, "targetPort: grpcs", "targetPort: grpc", "port grpcs is none of its pods"},
		{services, "clusterIP: None", "type: ClusterIP", "no headless Service"},
		{services, "publishNotReadyAddresses: true", "publishNotReadyAddresses: false", "while the store is full"},
		{services, "app.kubernetes.io/name: memoryd\n  # A pod", "app: memoryd\n  # A pod", "the pods of 0 workloads"},
		{netPolicy, "port: grpcs", "port: grpc", "port grpc is none of its pods"},
		{netPolicy, "egress: []", "egress: [{}]", "lets pods connect to others"},
		{netPolicy, "policyTypes: [Ingress, Egress]", "policyTypes: [Ingress]", "lets pods connect to others"},
		{netPolicy, "matchLabels:\n      app", "matchLabels:\n      xapp", "not for the pods of one workload"},
		{backup, "mountPath: /backups", "mountPath: /backup", "MEMORYD_BACKUP_DIR is \"/backups\", where no volume"},
		{backup, "MEMORYD_BACKUP_DIR=/backups", "MEMORYD_BACKUP_DIR=/data/backups", "on the volume of the memories"},
		{backup, "claimName: memoryd-backups", "claimName: backups", "no PersistentVolumeClaim backups"},
		{monitor, "port: https", "port: metrics", `0 Services have its port "metrics"`},
		{monitor, "port: https", "port: grpcs", `2 Services have its port "grpcs"`},
		{monitor, "jobLabel: app.kubernetes.io/name", "jobLabel: app", "memoryd in the alert rules"},
		{monitor, "scheme: https", "scheme: http", "does not speak https"},
		{monitor, "key: token", "key: tokens", `has no key "tokens"`},
		{monitor, "name: memoryd-ca", "name: memoryd-tls", "no ConfigMap memoryd-tls"},
		{monitor, "        serverName: memoryd\n", "", "no name of the server"},
		{agent, "command: [/memoryd, health]", "command: [/memoryd, check]", `the startup probe is ["/memoryd" "check"]`},
		{agent, "readinessProbe:", "livenessProbe:", "use GET /healthz"},
		{agent, "replicas: 1", "replicas: 3", "more than one pod"},
		{agent, "type: Recreate", "type: RollingUpdate", "more than one pod"},
		{agent, "claimName: agent-memories", "claimName: memories", "no PersistentVolumeClaim memories"},
		{agent, "persistentVolumeClaim:\n            claimName: agent-memories", "emptyDir: {}", "does not outlive the pod"},
		{agent, "unix:///run/memoryd/", "unix:///run/memory/", `MEMORYD_LISTEN is "/run/memory", where no volume`},
		{statefulSet, "matchLabels:\n      app", "matchLabels:\n      xapp", "`selector` does not match template `labels`"},
		{statefulSet, "accessModes: [ReadWriteOnce]", "accessModes: [ReadWrite]", "Unsupported value: \"ReadWrite\""},
		{statefulSet, "failureThreshold: 6", "failureThreshold: -6", "livenessProbe.failureThreshold"},
		{services, "port: 7711", "port: 77110", "spec.ports[0].port"},
		{agent, "          restartPolicy: Always", "          restartPolicy: Never", "it is no sidecar"},
		{agent, "          restartPolicy: Always\n", "", "it is no sidecar"},
		{job, "restartPolicy: Never", "restartPolicy: Always", "restartPolicy"},
		{job, "$(BACKUP)", "$(FILE)", "$(FILE) is no variable"},
		{job, "MEMORYD_DATA", "MEMORYD_DIR", "MEMORYD_DIR belongs to no setting"},
	} {
		t.Run(path.Base(m.file)+": "+m.new, func(t *testing.T) {
			files := deployFiles(t)
			m.mutate(t, files)
			files, _ = overlay(files)
			var found problems
			for _, dir := range kustomizations(files) {
				objects, err := Build(files, dir)
				if err == nil {
					err = k.Check(objects)
				}
				if err != nil {
					found = append(found, err)
				}
			}
			if err := found.err(); err == nil || !strings.Contains(err.Error(), m.want) {
				t.Errorf("got %v, want that it says %q", err, m.want)
			}
		})
	}
}

// TestKubernetes_Refused breaks settings so that memoryd alone can tell.
func TestKubernetes_Refused(t *testing.T) {
	r := newReader(t)
	for _, m := range []mutation{
		{baseConfig, "MEMORYD_LOG_FORMAT=json", "MEMORYD_LOG_FORMAT=yaml", "log-format"},
		{baseConfig, "      - MEMORYD_PRINCIPALS=/etc/memoryd/principals/principals.yaml\n", "", "nobody is authenticated"},
		{baseConfig, "      - MEMORYD_TLS_KEY=/etc/memoryd/tls/tls.key\n", "", "tls-key"},
		{baseConfig, "MEMORYD_LISTEN=:7711", "MEMORYD_LISTEN=7711", "listen"},
		{backup, "      - MEMORYD_BACKUP_EVERY=24h\n", "", "backup-every"},
	} {
		t.Run(path.Base(m.file)+": "+m.new, func(t *testing.T) {
			files := deployFiles(t)
			m.mutate(t, files)
			files, dir := overlay(files)
			containers, _ := newKubernetes(t).Containers(mustBuild(t, files, dir)) // It may have found the slip, too.
			n := newNode(t)
			r.mount(t, n, containers[0])
			if err := n.preflight(t, containers[0]); err == nil || !strings.Contains(err.Error(), m.want) {
				t.Errorf("got %v, want that it says %q", err, m.want)
			}
		})
	}
}

// TestCompose_Mutations breaks the compose file, one slip at a time, and wants each to be found.
func TestCompose_Mutations(t *testing.T) {
	defaults := settings(t)
	for _, m := range []mutation{
		{composeFile, "stop_grace_period", "stop_grace", ".stop_grace"},
		{composeFile, "stop_grace_period: 30s", "stop_grace_period: 10s", "killed after 10s"},
		{composeFile, "memoryd:v0.0.0}", "memoryd:latest}", "no tag with a version"},
		{composeFile, "prom/prometheus:v3.5.0", "prom/prometheus", "no tag with a version"},
		{composeFile, `user: "65532:65532"`, `user: "0:0"`, "may run as root"},
		{composeFile, "read_only: true", "read_only: false", "root is not read-only"},
		{composeFile, "cap_drop: [ALL]", "cap_drop: []", "has capabilities"},
		{composeFile, `["no-new-privileges:true"]`, "[]", "new privileges"},
		{composeFile, `"/memoryd", "health"`, `"/memoryd", "check"`, "not /memoryd health"},
		{composeFile, "mem_limit: 1g", "mem_limit: 512m", "GOMEMLIMIT"},
		{composeFile, "MEMORYD_HTTP: :7712", "MEMORYD_SIDE: :7712", "MEMORYD_SIDE belongs to no setting"},
		{composeFile, "MEMORYD_TLS_CERT: /etc/memoryd/", "MEMORYD_TLS_CERT: /etc/tls/", "where no volume is mounted"},
		{composeFile, "source: memories", "source: memory", "undefined volume memory"},
		{composeFile, "  metrics:\n", "  metrics:\n  other:\n", "nothing uses the volume other"},
		{composeFile, "source: ./prometheus.yml", "source: ./prometheus.yaml", "there is no /compose/prometheus.yaml"},
		{composeFile, "create_host_path: false", "create_host_path: true", "made where it is not there"},
		{composeFile, "memoryd-sidecar:\n        condition", "memoryd-side:\n        condition", "memoryd-side"},
	} {
		t.Run(m.new, func(t *testing.T) {
			files := deployFiles(t)
			m.mutate(t, files)
			if _, err := Compose(t.Context(), files, defaults); err == nil || !strings.Contains(err.Error(), m.want) {
				t.Errorf("got %v, want that it says %q", err, m.want)
			}
		})
	}
}
