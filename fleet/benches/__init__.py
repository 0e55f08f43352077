"""What `fettle bench` measured on nodes, and how GPUs compare with their peers."""
