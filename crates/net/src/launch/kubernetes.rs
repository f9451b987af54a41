//! Kubernetes manifest: an Indexed Job, whose pod 0 is the coordinator, and a headless Service
//! through which the workers find it.

use serde_json::{Value, json};

use super::{Placement, quoted};

/// Returns a `List` for `kubectl apply`, in JSON, which is YAML.
///
/// The token comes from key `token` of the Secret `NAME-token`. The manifest does not contain the
/// token because manifests are stored and shown.
pub fn manifest(placement: &Placement) -> Value {
    let Placement { name, program, workers, port, image, .. } = placement;
    let (coordinator, program) = (placement.coordinator(), quoted(program));
    let flags = placement.worker_flags();
    // Pods of an Indexed Job are named NAME-INDEX, also in DNS.
    let script = format!(
        "if [ \"$JOB_COMPLETION_INDEX\" -eq 0 ]; then exec {coordinator}; fi\n\
         exec {program} worker --join {name}-0.{name}:{port} --seat \"$JOB_COMPLETION_INDEX\" \
         {flags}\n"
    );
    let labels = json!({ "app.kubernetes.io/name": "dyno", "app.kubernetes.io/instance": name });
    let token = json!({ "secretKeyRef": { "name": format!("{name}-token"), "key": "token" } });
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "name": name, "labels": labels },
        "spec": {
            "clusterIP": "None",
            // Workers look up the coordinator before it is ready.
            "publishNotReadyAddresses": true,
            "selector": labels,
            "ports": [{ "name": "dyno", "port": port }],
        },
    });
    let job = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": { "name": name, "labels": labels },
        "spec": {
            "completionMode": "Indexed",
            "completions": workers + 1,
            "parallelism": workers + 1,
            // A run that lost a worker is INVALID, so pods are not restarted.
            "backoffLimit": 0,
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "subdomain": name,
                    "restartPolicy": "Never",
                    "containers": [{
                        "name": "dyno",
                        "image": image,
                        "command": ["sh", "-c", script],
                        "env": [{ "name": "DYNO_WORKER_TOKEN", "valueFrom": token }],
                        "ports": [{ "containerPort": port }],
                    }],
                },
            },
        },
    });
    json!({ "apiVersion": "v1", "kind": "List", "items": [service, job] })
}
